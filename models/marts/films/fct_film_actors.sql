{{
    config(
        materialized='incremental',
        unique_key=['film_id', 'actor_id'],
        meta={'affected_by': [
            {'source': 'pagila.film_actor', 'by': {'film_id': 'film_id', 'actor_id': 'actor_id'}},
            {'source': 'pagila.film', 'by': {'film_id': 'film_id'}, 'reads': ['title', 'release_year']},
            {'source': 'pagila.actor', 'by': {'actor_id': 'actor_id'}, 'reads': ['first_name', 'last_name']},
        ]},
    )
}}

with film_actors as (
    select * from {{ ref('stg_pagila__film_actors') }}
),

films as (
    select * from {{ ref('stg_pagila__films') }}
),

actors as (
    select * from {{ ref('stg_pagila__actors') }}
),

final as (
    select
        -- ids
        film_actors.film_id,
        film_actors.actor_id,

        -- text
        films.title as film_title,
        actors.full_name as actor_name,

        -- numerics
        films.release_year
    from film_actors
    left join films
        on film_actors.film_id = films.film_id
    left join actors
        on film_actors.actor_id = actors.actor_id
)

select * from final
