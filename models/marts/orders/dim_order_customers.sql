{{
    config(
        materialized='incremental',
        unique_key='customer_id',
        meta={'affected_by': [
            {'source': 'orders.cdc_events', 'by': {'customer_id': 'customer_id'}},
        ]},
    )
}}

with items as (
    select * from {{ ref('int_order_items_unnested_from_orders') }}
),

final as (
    select
        -- ids
        customer_id,

        -- text
        max_by(company_name, order_id) as company_name,

        -- numerics
        cast(count(distinct order_id) as int) as order_count,
        cast(count(distinct case when not has_readable_items then order_id end) as int) as unreadable_order_count,
        cast(count(quantity) as int) as item_count,
        cast(coalesce(sum(quantity), 0) as decimal(14, 2)) as quantity,
        cast(coalesce(sum(revenue), 0) as decimal(14, 2)) as revenue,
        cast(round(avg(quantity), 2) as decimal(10, 2)) as average_quantity,
        cast(round(avg(revenue), 2) as decimal(14, 2)) as average_revenue,

        -- dates
        min(order_date) as first_order_date,
        max(order_date) as last_order_date
    from items
    group by customer_id
)

select * from final
