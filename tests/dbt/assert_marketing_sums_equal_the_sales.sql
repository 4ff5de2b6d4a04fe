-- Fails if what buyers spent, or what sellers took, is not what fct_sales has for users who still exist.
with sales as (
    select * from {{ ref('fct_sales') }}
),

sums as (
    select
        (select sum(amount_spent) from {{ ref('dim_buyers') }}) as spent_by_buyers,
        (select sum(case when buyer_username is not null then price_paid end) from sales) as paid_by_buyers,
        (select sum(revenue) from {{ ref('dim_sellers') }}) as taken_by_sellers,
        (select sum(case when seller_username is not null then price_paid end) from sales) as paid_to_sellers
)

select *
from sums
where
    coalesce(spent_by_buyers, 0) <> coalesce(paid_by_buyers, 0)
    or coalesce(taken_by_sellers, 0) <> coalesce(paid_to_sellers, 0)
