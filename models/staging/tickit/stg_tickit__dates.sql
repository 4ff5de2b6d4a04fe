with source as (
    {{ live_rows(source('tickit', 'date')) }}
),

renamed as (
    select
        -- ids
        cast(dateid as int) as date_id,

        -- text
        day as day_name,
        month as month_name,
        qtr as quarter_name,

        -- numerics
        cast(week as int) as week_number,
        cast(year as int) as year_number,

        -- booleans
        coalesce(holiday, false) as is_holiday,
        day in ('SA', 'SU') as is_weekend,

        -- dates
        caldate as calendar_date
    from source
)

select * from renamed
