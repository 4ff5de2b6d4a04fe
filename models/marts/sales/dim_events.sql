{{ config(unique_key='event_id') }}

with events as (
    select * from {{ ref('stg_tickit__events') }}
),

categories as (
    select * from {{ ref('stg_tickit__categories') }}
),

venues as (
    select * from {{ ref('stg_tickit__venues') }}
),

dates as (
    select * from {{ ref('stg_tickit__dates') }}
),

states as (
    select * from {{ ref('states_and_provinces') }}
),

final as (
    select
        -- ids
        events.event_id,
        events.venue_id,
        events.category_id,
        events.date_id,

        -- text
        events.event_name,
        categories.category_group,
        categories.category_name,
        venues.venue_name,
        venues.city as venue_city,
        venues.state_code as venue_state_code,
        states.region_name as venue_region_name,
        dates.quarter_name,
        dates.day_name,

        -- booleans
        dates.is_holiday,
        dates.is_weekend,
        coalesce(extract(hour from events.starts_at) >= 18, false) as is_in_the_evening,

        -- dates
        dates.calendar_date as event_date,

        -- timestamps
        events.starts_at
    from events
    left join categories
        on events.category_id = categories.category_id
    left join venues
        on events.venue_id = venues.venue_id
    left join dates
        on events.date_id = dates.date_id
    left join states
        on venues.state_code = states.state_code
)

select * from final
