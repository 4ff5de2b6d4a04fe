{{ config(unique_key='customer_id') }}

with departed_customers as (
    select *
    from {{ ref('stg_customers__customers') }}
    where is_departed
),

final as (
    select
        -- ids
        customer_id,

        -- text
        customer_name,

        -- numerics
        {{ dbt.datediff('registered_at', 'changed_at', 'day') }} as days_as_customer,

        -- booleans
        is_expired,

        -- timestamps
        registered_at,
        changed_at as departed_at
    from departed_customers
)

select * from final
