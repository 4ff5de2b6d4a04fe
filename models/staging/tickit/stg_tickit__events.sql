with source as (
    {{ live_rows(source('tickit', 'event')) }}
),

renamed as (
    select
        -- ids
        eventid as event_id,
        cast(venueid as int) as venue_id,
        cast(catid as int) as category_id,
        cast(dateid as int) as date_id,

        -- text
        eventname as event_name,

        -- timestamps
        starttime as starts_at
    from source
)

select * from renamed
