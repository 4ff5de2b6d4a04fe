-- Fails if a sale names another seller or another event than the listing that it was bought from.
with sales as (
    select * from {{ ref('fct_sales') }}
),

listings as (
    select * from {{ ref('fct_listings') }}
)

select
    sales.sale_id,
    sales.listing_id
from sales
inner join listings
    on sales.listing_id = listings.listing_id
where
    sales.seller_id <> listings.seller_id
    or sales.event_id <> listings.event_id
