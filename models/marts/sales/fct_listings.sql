{{
    config(
        materialized='incremental',
        unique_key='listing_id',
        partition_by=['listing_month'],
        meta={'affected_by': [
            {'source': 'tickit.listing', 'by': {'listing_id': 'listid'}},
            {'source': 'tickit.sale', 'by': {'listing_id': 'listid'}, 'reads': ['qtysold', 'pricepaid', 'saletime']},
            {'source': 'tickit.event', 'by': {'event_id': 'eventid'}},
            {'source': 'tickit.category', 'by': {'category_id': 'catid'}},
            {'source': 'tickit.date', 'by': {'date_id': 'dateid'}},
            {'source': 'tickit.user', 'by': {'seller_id': 'userid'}},
        ]},
    )
}}

with listings as (
    select * from {{ ref('stg_tickit__listings') }}
),

sales as (
    select * from {{ ref('stg_tickit__sales') }}
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

users as (
    select * from {{ ref('stg_tickit__users') }}
),

price_bands as (
    select * from {{ ref('price_bands') }}
),

sales_of_listings as (
    select
        listing_id,
        cast(count(*) as int) as sale_count,
        cast(sum(quantity_sold) as int) as quantity_sold,
        cast(sum(price_paid) as decimal(12, 2)) as revenue,
        min(sold_at) as first_sold_at
    from sales
    group by listing_id
),

final as (
    select
        -- ids
        listings.listing_id,
        listings.event_id,
        events.venue_id,
        events.category_id,
        listings.date_id,
        listings.seller_id,

        -- text
        dates.quarter_name,
        categories.category_group,
        categories.category_name,
        events.event_name,
        users.username as seller_username,
        users.full_name as seller_full_name,
        users.state_code as seller_state_code,
        price_bands.price_band,

        -- numerics
        listings.quantity_listed,
        listings.ticket_price,
        listings.total_price,
        coalesce(sales_of_listings.sale_count, 0) as sale_count,
        coalesce(sales_of_listings.quantity_sold, 0) as quantity_sold,
        coalesce(sales_of_listings.revenue, cast(0 as decimal(12, 2))) as revenue,
        {{ quotient(
            'coalesce(sales_of_listings.quantity_sold, 0)', 'listings.quantity_listed', 'decimal(10, 2)', times=100
        ) }} as sold_prcnt,
        {{ dbt.datediff('listings.listed_at', 'events.starts_at', 'day') }} as days_from_listing_to_event,
        {{ dbt.datediff('listings.listed_at', 'sales_of_listings.first_sold_at', 'day') }} as days_to_first_sale,

        -- booleans
        coalesce(sales_of_listings.quantity_sold >= listings.quantity_listed, false) as is_sold_out,

        -- dates
        dates.calendar_date as listing_date,

        -- timestamps
        listings.listed_at,
        sales_of_listings.first_sold_at,

        -- partition: what is sold is of the last months' listings
        cast(date_trunc('month', listings.listed_at) as date) as listing_month
    from listings
    left join sales_of_listings
        on listings.listing_id = sales_of_listings.listing_id
    left join events
        on listings.event_id = events.event_id
    left join categories
        on events.category_id = categories.category_id
    left join dates
        on listings.date_id = dates.date_id
    left join users
        on listings.seller_id = users.user_id
    left join price_bands
        on
            listings.ticket_price >= price_bands.from_price
            and listings.ticket_price < coalesce(price_bands.below_price, 1000000)
)

select * from final
