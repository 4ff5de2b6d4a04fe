with source as (
    {{ live_rows(source('pagila', 'language')) }}
),

renamed as (
    select
        -- ids
        language_id,

        -- text; character(20) comes filled up with blanks
        rtrim(name) as language_name,

        -- timestamps
        last_update as last_updated_at
    from source
)

select * from renamed
