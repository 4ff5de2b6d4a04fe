with source as (
    {{ live_rows(source('tickit', 'sale')) }}
),

renamed as (
    select
        -- ids
        salesid as sale_id,
        listid as listing_id,
        sellerid as seller_id,
        buyerid as buyer_id,
        eventid as event_id,
        cast(dateid as int) as date_id,

        -- numerics
        cast(qtysold as int) as quantity_sold,
        {{ quotient('pricepaid', 'qtysold', 'decimal(8, 2)') }} as ticket_price,
        pricepaid as price_paid,
        {{ quotient('commission', 'pricepaid', 'decimal(10, 2)', times=100) }} as commission_prcnt,
        commission,
        cast(pricepaid - commission as decimal(9, 2)) as earnings,

        -- timestamps
        saletime as sold_at
    from source
)

select * from renamed
