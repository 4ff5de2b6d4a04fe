-- The ten weeks in which most was sold, and how each compares with the average week.
with sales as (
    select * from {{ ref('fct_sales') }}
),

dates as (
    select * from {{ ref('dim_dates') }}
),

weeks as (
    select
        dates.year_number,
        dates.week_number,
        min(dates.calendar_date) as first_sale_date,
        count(*) as sale_count,
        sum(sales.price_paid) as revenue
    from sales
    inner join dates
        on sales.date_id = dates.date_id
    group by dates.year_number, dates.week_number
),

compared as (
    select
        *,
        {{ quotient('revenue', 'avg(revenue) over ()', 'decimal(10, 1)', times=100) }} as prcnt_of_average_week
    from weeks
)

select *
from compared
order by revenue desc, year_number asc, week_number asc
limit 10
