{{ config(unique_key='user_id') }}

with sellers as (
    select * from {{ ref('int_sellers_extracted_from_users') }}
),

sales as (
    select * from {{ ref('stg_tickit__sales') }}
),

listings as (
    select * from {{ ref('stg_tickit__listings') }}
),

states as (
    select * from {{ ref('states_and_provinces') }}
),

sales_of_sellers as (
    select
        seller_id,
        cast(count(*) as int) as sale_count,
        cast(sum(quantity_sold) as int) as quantity_sold,
        cast(sum(price_paid) as decimal(12, 2)) as revenue,
        cast(sum(commission) as decimal(12, 2)) as commission_paid,
        cast(sum(earnings) as decimal(12, 2)) as earnings,
        cast(max(sold_at) as date) as last_sale_date
    from sales
    group by seller_id
),

listings_of_sellers as (
    select
        seller_id,
        cast(count(*) as int) as listing_count,
        cast(sum(quantity_listed) as int) as quantity_listed
    from listings
    group by seller_id
),

final as (
    select
        -- ids
        sellers.user_id,

        -- text
        sellers.username,
        sellers.full_name,
        sellers.city,
        sellers.state_code,
        states.state_name,
        states.region_name,
        sellers.email,
        sellers.phone_number,

        -- numerics
        sellers.interest_count,
        coalesce(listings_of_sellers.listing_count, 0) as listing_count,
        coalesce(listings_of_sellers.quantity_listed, 0) as quantity_listed,
        sales_of_sellers.sale_count,
        sales_of_sellers.quantity_sold,
        {{ quotient(
            'sales_of_sellers.quantity_sold', 'listings_of_sellers.quantity_listed', 'decimal(10, 2)', times=100
        ) }} as sold_prcnt,
        sales_of_sellers.revenue,
        sales_of_sellers.commission_paid,
        sales_of_sellers.earnings,

        -- booleans
        sellers.is_fan_of_broadway,
        sellers.is_fan_of_classical,
        sellers.is_fan_of_concerts,
        sellers.is_fan_of_jazz,
        sellers.is_fan_of_musicals,
        sellers.is_fan_of_opera,
        sellers.is_fan_of_rock,
        sellers.is_fan_of_sports,
        sellers.is_fan_of_theatre,
        sellers.is_fan_of_vegas,

        -- dates
        sellers.first_sale_date,
        sales_of_sellers.last_sale_date
    from sellers
    inner join sales_of_sellers
        on sellers.user_id = sales_of_sellers.seller_id
    left join listings_of_sellers
        on sellers.user_id = listings_of_sellers.seller_id
    left join states
        on sellers.state_code = states.state_code
)

select * from final
