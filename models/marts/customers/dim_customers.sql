{{ config(unique_key='customer_id') }}

with customers as (
    select *
    from {{ ref('stg_customers__customers') }}
    where not is_departed
),

final as (
    select
        -- ids
        customer_id,

        -- text
        customer_name,
        email,
        lower(regexp_replace(email, '^.*@', '')) as email_domain,

        -- booleans
        expires_at is not null as is_on_trial,

        -- timestamps
        registered_at,
        expires_at
    from customers
)

select * from final
