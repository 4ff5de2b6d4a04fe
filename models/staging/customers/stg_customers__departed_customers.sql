{#- The tombstones: what the stream says of an item when it is deleted -#}
with source as (
    select *
    from {{ source('customers', 'cust_hudi_f1') }}
    where not {{ is_live() }}
),

renamed as (
    select
        -- ids
        id as customer_id,

        -- text
        `custName` as customer_name,

        -- booleans
        `__is_ttl_delete` as is_expired,

        -- timestamps
        `registrationDate` as registered_at,
        timestamp_millis(`__source_ts_ms`) as departed_at
    from source
)

select * from renamed
