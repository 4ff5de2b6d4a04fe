with source as (
    {{ live_rows(source('tickit', 'venue')) }}
),

renamed as (
    select
        -- ids
        cast(venueid as int) as venue_id,

        -- text
        venuename as venue_name,
        venuecity as city,
        venuestate as state_code,

        -- numerics
        nullif(venueseats, 0) as seat_count
    from source
)

select * from renamed
