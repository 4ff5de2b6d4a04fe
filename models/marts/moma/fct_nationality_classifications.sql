{{ config(unique_key=['nationality', 'classification']) }}

with artworks as (
    select * from {{ ref('fct_artworks') }}
),

final as (
    select
        -- text
        coalesce(nationality, 'not known') as nationality,
        coalesce(classification, 'not known') as classification,

        -- numerics
        cast(count(*) as int) as artwork_count,
        cast(count(distinct artist_id) as int) as artist_count,
        cast(count_if(is_catalogued) as int) as catalogued_count
    from artworks
    group by coalesce(nationality, 'not known'), coalesce(classification, 'not known')
)

select * from final
