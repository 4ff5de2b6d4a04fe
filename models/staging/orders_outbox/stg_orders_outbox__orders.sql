with source as (
    {{ live_rows(source('orders_outbox', 'orders')) }}
),

renamed as (
    select
        -- ids
        order_id,
        customer_id,

        -- text
        company_name,
        order_items,

        -- numerics
        version as event_version,

        -- dates
        order_date,
        required_date,
        shipped_date
    from source
)

select * from renamed
