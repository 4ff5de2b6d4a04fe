{#- All sales of TICKIT are of 2008: a run that is to see them again says so, as `make demo` does (docs/model) -#}
{{
    config(
        materialized='incremental',
        incremental_strategy='microbatch',
        unique_key=['sale_date', 'category_id'],
        event_time='sale_date',
        begin='2008-01-01',
        batch_size='year',
        lookback=0,
        partition_by=['sale_month'],
    )
}}

with sales as (
    select
        coalesce(category_id, 0) as category_id,
        cast(sold_at as date) as sale_date,
        quantity_sold,
        price_paid,
        commission
    from {{ ref('fct_sales') }}
),

final as (
    select
        -- ids
        category_id,

        -- numerics
        cast(count(*) as int) as sale_count,
        cast(sum(quantity_sold) as int) as quantity_sold,
        cast(sum(price_paid) as decimal(12, 2)) as revenue,
        cast(sum(commission) as decimal(12, 2)) as commission,

        -- dates
        sale_date,
        cast(date_trunc('month', sale_date) as date) as sale_month
    from sales
    group by sale_date, category_id
)

select * from final
