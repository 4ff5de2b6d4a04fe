{{ config(unique_key='date_id') }}

with dates as (
    select * from {{ ref('stg_tickit__dates') }}
),

final as (
    select
        -- ids
        date_id,

        -- text
        day_name,
        month_name,
        quarter_name,

        -- numerics
        cast(extract(day from calendar_date) as int) as day_of_month,
        week_number,
        cast(extract(month from calendar_date) as int) as month_number,
        year_number,

        -- booleans
        is_holiday,
        is_weekend,
        not is_holiday and not is_weekend as is_working_day,

        -- dates
        calendar_date
    from dates
)

select * from final
