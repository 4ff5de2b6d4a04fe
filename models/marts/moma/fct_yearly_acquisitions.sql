{{ config(unique_key=['acquisition_year', 'department']) }}

with artworks as (
    select * from {{ ref('fct_artworks') }}
    where acquisition_year is not null
),

final as (
    select
        -- text
        coalesce(department, 'not known') as department,

        -- numerics
        acquisition_year,
        cast(count(*) as int) as artwork_count,
        cast(count(distinct artist_id) as int) as artist_count,
        cast(round(avg(acquisition_year - creation_year), 1) as decimal(6, 1)) as average_age
    from artworks
    group by acquisition_year, coalesce(department, 'not known')
)

select * from final
