{%- set fields = {'discount': 'decimal(8, 2)', 'quantity': 'decimal(8, 2)', 'unit_price': 'decimal(8, 2)'} -%}

with orders as (
    select * from {{ ref('stg_orders__orders') }}
),

checked as (
    select
        order_id,
        customer_id,
        company_name,
        order_date,
        required_date,
        shipped_date,
        {{ is_json_array('order_items', fields) }} as has_readable_items,
        -- Where it is broken, the order stays: as one without items, which says so.
        case when {{ is_json_array('order_items', fields) }} then order_items end as order_items
    from orders
),

unnested as (
    {{ json_array_rows(
        'checked', 'order_items', fields, outer=true,
        keep=['order_id', 'customer_id', 'company_name', 'order_date', 'required_date', 'shipped_date', 'has_readable_items']
    ) | indent(4) }}
),

numbered as (
    select
        *,
        coalesce(position, 0) as item_number
    from unnested
),

final as (
    select
        -- ids
        {{ surrogate_key({'order_id': 'int', 'item_number': 'int'}) }} as order_item_id,
        order_id,
        customer_id,

        -- text
        company_name,

        -- numerics
        item_number,
        quantity,
        unit_price,
        discount,
        cast(round(quantity * unit_price * (1 - discount), 2) as decimal(14, 2)) as revenue,

        -- booleans
        has_readable_items,

        -- dates
        order_date,
        required_date,
        shipped_date
    from numbered
)

select * from final
