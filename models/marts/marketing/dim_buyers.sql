{{ config(unique_key='user_id') }}

with buyers as (
    select * from {{ ref('int_buyers_extracted_from_users') }}
),

sales as (
    select * from {{ ref('stg_tickit__sales') }}
),

states as (
    select * from {{ ref('states_and_provinces') }}
),

purchases as (
    select
        buyer_id,
        cast(count(*) as int) as purchase_count,
        cast(sum(quantity_sold) as int) as quantity_bought,
        cast(sum(price_paid) as decimal(12, 2)) as amount_spent,
        cast(max(sold_at) as date) as last_purchase_date
    from sales
    group by buyer_id
),

final as (
    select
        -- ids
        buyers.user_id,

        -- text
        buyers.username,
        buyers.full_name,
        buyers.city,
        buyers.state_code,
        states.state_name,
        states.region_name,
        buyers.email,
        buyers.phone_number,

        -- numerics
        buyers.interest_count,
        purchases.purchase_count,
        purchases.quantity_bought,
        purchases.amount_spent,
        {{ quotient('purchases.amount_spent', 'purchases.purchase_count', 'decimal(12, 2)') }} as average_purchase,

        -- booleans
        purchases.purchase_count > 1 as is_returning,
        buyers.is_fan_of_broadway,
        buyers.is_fan_of_classical,
        buyers.is_fan_of_concerts,
        buyers.is_fan_of_jazz,
        buyers.is_fan_of_musicals,
        buyers.is_fan_of_opera,
        buyers.is_fan_of_rock,
        buyers.is_fan_of_sports,
        buyers.is_fan_of_theatre,
        buyers.is_fan_of_vegas,

        -- dates
        buyers.first_purchase_date,
        purchases.last_purchase_date
    from buyers
    inner join purchases
        on buyers.user_id = purchases.buyer_id
    left join states
        on buyers.state_code = states.state_code
)

select * from final
