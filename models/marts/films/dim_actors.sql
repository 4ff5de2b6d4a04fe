{{ config(unique_key='actor_id') }}

with actors as (
    select * from {{ ref('stg_pagila__actors') }}
),

film_actors as (
    select * from {{ ref('stg_pagila__film_actors') }}
),

films as (
    select * from {{ ref('stg_pagila__films') }}
),

films_of_actors as (
    select
        film_actors.actor_id,
        cast(count(*) as int) as film_count,
        min(films.release_year) as first_release_year,
        max(films.release_year) as last_release_year
    from film_actors
    left join films
        on film_actors.film_id = films.film_id
    group by film_actors.actor_id
),

final as (
    select
        -- ids
        actors.actor_id,

        -- text
        actors.first_name,
        actors.last_name,
        actors.full_name,

        -- numerics
        coalesce(films_of_actors.film_count, 0) as film_count,
        films_of_actors.first_release_year,
        films_of_actors.last_release_year
    from actors
    left join films_of_actors
        on actors.actor_id = films_of_actors.actor_id
)

select * from final
