{{ config(unique_key='venue_id') }}

with venues as (
    select * from {{ ref('stg_tickit__venues') }}
),

events as (
    select * from {{ ref('stg_tickit__events') }}
),

states as (
    select * from {{ ref('states_and_provinces') }}
),

events_of_venues as (
    select
        venue_id,
        cast(count(*) as int) as event_count
    from events
    group by venue_id
),

final as (
    select
        -- ids
        venues.venue_id,

        -- text
        venues.venue_name,
        venues.city,
        venues.state_code,
        states.state_name,
        states.region_name,
        states.country_code,

        -- numerics
        venues.seat_count,
        coalesce(events_of_venues.event_count, 0) as event_count,

        -- booleans
        venues.seat_count is not null as has_known_seat_count
    from venues
    left join events_of_venues
        on venues.venue_id = events_of_venues.venue_id
    left join states
        on venues.state_code = states.state_code
)

select * from final
