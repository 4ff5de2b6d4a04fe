with source as (
    {{ live_rows(source('moma', 'artworks_mor')) }}
),

renamed as (
    select
        -- ids
        artwork_id,
        artist_id,

        -- text: the article's data has underscores for blanks, and an empty text for what is not known
        title,
        name as artist_name,
        nullif(medium, '') as medium,
        nullif(dimensions, '') as dimensions,
        nullif(credit, '') as credit_line,
        replace(nullif(department, ''), '_', ' ') as department,
        replace(nullif({{ partition_value('classification') }}, ''), '_', ' ') as classification,
        nullif(object_number, '') as object_number,

        -- numerics: what is no number is null
        date as creation_year,
        try_cast(height_cm as decimal(12, 4)) as height_cm,
        try_cast(width_cm as decimal(12, 4)) as width_cm,
        try_cast(depth_cm as decimal(12, 4)) as depth_cm,
        try_cast(weight_kg as decimal(12, 4)) as weight_kg,
        durations as duration_s,

        -- booleans
        coalesce(catalogue = 'Y', false) as is_catalogued,

        -- dates: a year alone is no day
        {{ date_of_text('acquisition_date') }} as acquired_on
    from source
)

select * from renamed
