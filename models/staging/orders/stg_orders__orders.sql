with source as (
    {{ live_rows(source('orders', 'cdc_events')) }}
),

renamed as (
    select
        -- ids
        order_id,
        customer_id,

        -- text
        company_name,
        order_items,

        -- dates
        order_date,
        required_date,
        shipped_date
    from source
)

select * from renamed
