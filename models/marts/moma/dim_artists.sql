{{
    config(
        materialized='incremental',
        unique_key='artist_id',
        meta={'affected_by': [
            {'source': 'moma.artists_mor', 'by': {'artist_id': 'artist_id'}},
            {
                'source': 'moma.artworks_mor',
                'by': {'artist_id': 'artist_id'},
                'reads': ['classification', 'acquisition_date'],
            },
        ]},
    )
}}

with artists as (
    select * from {{ ref('stg_moma__artists') }}
),

artworks as (
    select * from {{ ref('stg_moma__artworks') }}
),

works_of_artists as (
    select
        artist_id,
        cast(count(*) as int) as artwork_count,
        cast(count(distinct classification) as int) as classification_count,
        min(acquired_on) as first_acquired_on,
        max(acquired_on) as last_acquired_on
    from artworks
    group by artist_id
),

final as (
    select
        -- ids
        artists.artist_id,

        -- text
        artists.artist_name,
        artists.nationality,
        artists.gender,

        -- numerics
        artists.birth_year,
        artists.death_year,
        coalesce(works_of_artists.artwork_count, 0) as artwork_count,
        coalesce(works_of_artists.classification_count, 0) as classification_count,

        -- dates
        works_of_artists.first_acquired_on,
        works_of_artists.last_acquired_on
    from artists
    left join works_of_artists
        on artists.artist_id = works_of_artists.artist_id
)

select * from final
