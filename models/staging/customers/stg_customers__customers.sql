with source as (
    {{ live_rows(source('customers', 'cust_hudi_f1')) }}
),

renamed as (
    select
        -- ids
        id as customer_id,

        -- text
        `custName` as customer_name,
        email,

        -- timestamps
        `registrationDate` as registered_at,
        timestamp_seconds(`expiresAt`) as expires_at
    from source
)

select * from renamed
