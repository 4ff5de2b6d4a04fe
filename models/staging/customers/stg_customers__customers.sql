{#- With the tombstones: who is gone, and how, is what a mart asks for, and a source has one staging model -#}
with source as (
    select * from {{ source('customers', 'cust_hudi_f1') }}
),

renamed as (
    select
        -- ids
        id as customer_id,

        -- text
        custname as customer_name,
        email,

        -- booleans
        not {{ is_live() }} as is_departed,
        __is_ttl_delete as is_expired,

        -- timestamps
        registrationdate as registered_at,
        {{ timestamp_of_epoch('expiresat', 'second') }} as expires_at,
        {{ timestamp_of_epoch('__source_ts_ms', 'millisecond') }} as changed_at
    from source
)

select * from renamed
