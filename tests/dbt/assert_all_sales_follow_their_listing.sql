-- Fails if tickets were sold before they were offered.
select
    sale_id,
    days_from_listing_to_sale
from {{ ref('fct_sales') }}
where days_from_listing_to_sale < 0
