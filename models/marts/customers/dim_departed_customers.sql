{{ config(unique_key='customer_id') }}

with departed_customers as (
    select * from {{ ref('stg_customers__departed_customers') }}
),

final as (
    select
        -- ids
        customer_id,

        -- text
        customer_name,

        -- numerics
        datediff(departed_at, registered_at) as days_as_customer,

        -- booleans
        is_expired,

        -- timestamps
        registered_at,
        departed_at
    from departed_customers
)

select * from final
