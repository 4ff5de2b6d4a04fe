{#- No column of the source says which items there will be: whole tables are compared (docs/model/affected-by.md) -#}
{{ config(materialized='incremental', unique_key='order_item_id') }}

with items as (
    select * from {{ ref('int_order_items_unnested_from_orders') }}
),

final as (
    select
        -- ids
        order_item_id,
        order_id,
        customer_id,

        -- numerics
        item_number,
        quantity,
        unit_price,
        discount,
        revenue,

        -- dates
        order_date
    from items
    where item_number > 0
)

select * from final
