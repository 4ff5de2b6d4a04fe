with source as (
    {{ live_rows(source('moma', 'artists_mor')) }}
),

renamed as (
    select
        -- ids
        artist_id,

        -- text: the article's data has underscores for blanks, and an empty text for what is not known
        name as artist_name,
        replace(nullif({{ partition_value('nationality') }}, ''), '_', ' ') as nationality,
        nullif(gender, '') as gender,

        -- numerics
        birth_year,
        death_year
    from source
)

select * from renamed
