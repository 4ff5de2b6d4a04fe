with source as (
    {{ live_rows(source('tickit', 'listing')) }}
),

renamed as (
    select
        -- ids
        listid as listing_id,
        sellerid as seller_id,
        eventid as event_id,
        cast(dateid as int) as date_id,

        -- numerics
        cast(numtickets as int) as quantity_listed,
        priceperticket as ticket_price,
        totalprice as total_price,

        -- timestamps
        listtime as listed_at
    from source
)

select * from renamed
