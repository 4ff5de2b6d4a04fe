with source as (
    {{ live_rows(source('pagila', 'category')) }}
),

renamed as (
    select
        -- ids
        category_id,

        -- text
        name as category_name,

        -- timestamps
        last_update as last_updated_at
    from source
)

select * from renamed
