{{ config(unique_key=['film_id', 'category_id']) }}

with source as (
    {{ live_rows(source('pagila', 'film_category')) }}
),

renamed as (
    select
        -- ids
        film_id,
        category_id,

        -- timestamps
        last_update as last_updated_at
    from source
)

select * from renamed
