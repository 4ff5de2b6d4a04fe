-- Fails if a user is in neither of dim_buyers and dim_non_buyers, or in both.
with users as (
    select user_id from {{ ref('stg_tickit__users') }}
),

buyers as (
    select user_id from {{ ref('dim_buyers') }}
),

non_buyers as (
    select user_id from {{ ref('dim_non_buyers') }}
)

select users.user_id
from users
left join buyers
    on users.user_id = buyers.user_id
left join non_buyers
    on users.user_id = non_buyers.user_id
where (buyers.user_id is null) = (non_buyers.user_id is null)
