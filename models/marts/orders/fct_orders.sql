{{
    config(
        materialized='incremental',
        unique_key='order_id',
        meta={'affected_by': [
            {'source': 'orders.cdc_events', 'by': {'order_id': 'order_id'}},
        ]},
    )
}}

with items as (
    select * from {{ ref('int_order_items_unnested_from_orders') }}
),

final as (
    select
        -- ids
        order_id,
        max(customer_id) as customer_id,

        -- numerics
        cast(count(quantity) as int) as item_count,
        cast(coalesce(sum(quantity), 0) as decimal(14, 2)) as quantity,
        cast(coalesce(sum(revenue), 0) as decimal(14, 2)) as revenue,

        -- booleans
        bool_and(has_readable_items) as has_readable_items,

        -- dates
        max(order_date) as order_date,
        max(required_date) as required_date,
        max(shipped_date) as shipped_date
    from items
    group by order_id
)

select * from final
