-- The ten sellers with the highest revenue of each quarter, with their rank.
with sales as (
    select * from {{ ref('fct_sales') }}
),

revenue_of_sellers as (
    select
        quarter_name,
        seller_id,
        seller_full_name,
        sum(price_paid) as revenue,
        sum(quantity_sold) as quantity_sold
    from sales
    group by quarter_name, seller_id, seller_full_name
),

ranked as (
    select
        *,
        row_number() over (partition by quarter_name order by revenue desc, seller_id asc) as revenue_rank
    from revenue_of_sellers
)

select *
from ranked
where revenue_rank <= 10
order by quarter_name asc, revenue_rank asc
