with sales as (
    select * from {{ ref('stg_tickit__sales') }}
),

users as (
    select * from {{ ref('stg_tickit__users') }}
),

first_sales as (
    select
        seller_id as user_id,
        cast(min(sold_at) as date) as first_sale_date
    from sales
    group by seller_id
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
        users.email,
        users.phone_number,

        -- numerics
        users.interest_count,

        -- booleans
        users.is_fan_of_broadway,
        users.is_fan_of_classical,
        users.is_fan_of_concerts,
        users.is_fan_of_jazz,
        users.is_fan_of_musicals,
        users.is_fan_of_opera,
        users.is_fan_of_rock,
        users.is_fan_of_sports,
        users.is_fan_of_theatre,
        users.is_fan_of_vegas,

        -- dates
        first_sales.first_sale_date
    from users
    inner join first_sales
        on users.user_id = first_sales.user_id
)

select * from final
