-- Revenue, commission and tickets by category of event and region of venue, with each region's share of its category.
with sales as (
    select * from {{ ref('fct_sales') }}
),

events as (
    select * from {{ ref('dim_events') }}
),

revenue_of_regions as (
    select
        events.category_group,
        events.category_name,
        events.venue_region_name,
        sum(sales.quantity_sold) as quantity_sold,
        sum(sales.price_paid) as revenue,
        sum(sales.commission) as commission
    from sales
    left join events
        on sales.event_id = events.event_id
    group by events.category_group, events.category_name, events.venue_region_name
),

shares as (
    select
        *,
        {{ quotient(
            'revenue', 'sum(revenue) over (partition by category_group, category_name)', 'decimal(4, 1)', times=100
        ) }} as prcnt_of_category
    from revenue_of_regions
)

select *
from shares
order by category_group asc, category_name asc, revenue desc
