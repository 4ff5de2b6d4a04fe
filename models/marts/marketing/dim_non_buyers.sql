{{ config(unique_key='user_id') }}

with users as (
    select * from {{ ref('stg_tickit__users') }}
),

buyers as (
    select * from {{ ref('int_buyers_extracted_from_users') }}
),

sellers as (
    select * from {{ ref('int_sellers_extracted_from_users') }}
),

states as (
    select * from {{ ref('states_and_provinces') }}
),

final as (
    select
        -- ids
        users.user_id,

        -- text
        users.username,
        users.full_name,
        users.city,
        users.state_code,
        states.state_name,
        states.region_name,
        users.email,
        users.phone_number,

        -- numerics
        users.interest_count,

        -- booleans
        sellers.user_id is not null as has_sold,
        users.is_fan_of_broadway,
        users.is_fan_of_classical,
        users.is_fan_of_concerts,
        users.is_fan_of_jazz,
        users.is_fan_of_musicals,
        users.is_fan_of_opera,
        users.is_fan_of_rock,
        users.is_fan_of_sports,
        users.is_fan_of_theatre,
        users.is_fan_of_vegas
    from users
    left join buyers
        on users.user_id = buyers.user_id
    left join sellers
        on users.user_id = sellers.user_id
    left join states
        on users.state_code = states.state_code
    where buyers.user_id is null
)

select * from final
