{{
    config(
        materialized='incremental',
        unique_key='sale_id',
        event_time='sold_at',
        partition_by=['sale_month'],
        meta={'affected_by': [
            {'source': 'tickit.sale', 'by': {'sale_id': 'salesid'}},
            {'source': 'tickit.sale', 'by': {'buyer_id': 'buyerid'}, 'reads': ['saletime']},
            {'source': 'tickit.sale', 'by': {'seller_id': 'sellerid'}, 'reads': ['saletime']},
            {'source': 'tickit.listing', 'by': {'listing_id': 'listid'}},
            {'source': 'tickit.event', 'by': {'event_id': 'eventid'}},
            {'source': 'tickit.category', 'by': {'category_id': 'catid'}},
            {'source': 'tickit.date', 'by': {'date_id': 'dateid'}},
            {'source': 'tickit.user', 'by': {'buyer_id': 'userid'}},
            {'source': 'tickit.user', 'by': {'seller_id': 'userid'}},
        ]},
    )
}}

with sales as (
    select * from {{ ref('stg_tickit__sales') }}
),

listings as (
    select * from {{ ref('stg_tickit__listings') }}
),

events as (
    select * from {{ ref('stg_tickit__events') }}
),

categories as (
    select * from {{ ref('stg_tickit__categories') }}
),

dates as (
    select * from {{ ref('stg_tickit__dates') }}
),

buyers as (
    select * from {{ ref('int_buyers_extracted_from_users') }}
),

sellers as (
    select * from {{ ref('int_sellers_extracted_from_users') }}
),

price_bands as (
    select * from {{ ref('price_bands') }}
),

-- Left joins only: what a sale refers to may be missing or not yet landed, and the sale counts all the same.
final as (
    select
        -- ids
        sales.sale_id,
        sales.listing_id,
        sales.event_id,
        events.venue_id,
        events.category_id,
        sales.date_id,
        sales.buyer_id,
        sales.seller_id,

        -- text
        dates.quarter_name,
        categories.category_group,
        categories.category_name,
        events.event_name,
        buyers.username as buyer_username,
        buyers.full_name as buyer_full_name,
        buyers.state_code as buyer_state_code,
        sellers.username as seller_username,
        sellers.full_name as seller_full_name,
        sellers.state_code as seller_state_code,
        price_bands.price_band,

        -- numerics
        sales.quantity_sold,
        sales.ticket_price,
        sales.price_paid,
        sales.commission_prcnt,
        sales.commission,
        sales.earnings,
        {{ dbt.datediff('listings.listed_at', 'sales.sold_at', 'day') }} as days_from_listing_to_sale,

        -- booleans
        coalesce(cast(sales.sold_at as date) = buyers.first_purchase_date, false) as is_on_first_purchase_date,

        -- dates
        dates.calendar_date as sale_date,
        buyers.first_purchase_date as buyer_first_purchase_date,
        sellers.first_sale_date as seller_first_sale_date,

        -- timestamps
        sales.sold_at,

        -- partition: what is new is of the last month
        cast(date_trunc('month', sales.sold_at) as date) as sale_month
    from sales
    left join listings
        on sales.listing_id = listings.listing_id
    left join events
        on sales.event_id = events.event_id
    left join categories
        on events.category_id = categories.category_id
    left join dates
        on sales.date_id = dates.date_id
    left join buyers
        on sales.buyer_id = buyers.user_id
    left join sellers
        on sales.seller_id = sellers.user_id
    left join price_bands
        on
            sales.ticket_price >= price_bands.from_price
            and sales.ticket_price < coalesce(price_bands.below_price, 1000000)
)

select * from final
