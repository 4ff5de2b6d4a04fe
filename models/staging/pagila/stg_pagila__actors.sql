with source as (
    {{ live_rows(source('pagila', 'actor')) }}
),

renamed as (
    select
        -- ids
        actor_id,

        -- text
        first_name,
        last_name,
        concat(first_name, ' ', last_name) as full_name,

        -- timestamps
        last_update as last_updated_at
    from source
)

select * from renamed
