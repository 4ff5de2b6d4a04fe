{{
    config(
        materialized='incremental',
        unique_key='artwork_id',
        meta={'affected_by': [
            {'source': 'moma.artworks_mor', 'by': {'artwork_id': 'artwork_id'}},
            {'source': 'moma.artists_mor', 'by': {'artist_id': 'artist_id'}},
        ]},
    )
}}

with artworks as (
    select * from {{ ref('stg_moma__artworks') }}
),

artists as (
    select * from {{ ref('stg_moma__artists') }}
),

-- A left join: an artist may be gone, or not yet landed, and the work counts all the same.
final as (
    select
        -- ids
        artworks.artwork_id,
        artworks.artist_id,

        -- text
        artworks.title,
        artworks.artist_name,
        artists.nationality,
        artworks.department,
        artworks.classification,
        artworks.medium,
        artworks.credit_line,

        -- numerics
        artworks.creation_year,
        artworks.creation_year - artists.birth_year as artist_age_at_creation,
        cast(year(artworks.acquired_on) as int) as acquisition_year,
        artworks.height_cm,
        artworks.width_cm,

        -- booleans
        artworks.is_catalogued,

        -- dates
        artworks.acquired_on
    from artworks
    left join artists
        on artworks.artist_id = artists.artist_id
)

select * from final
