{{ config(enabled=target.type == 'spark') }}
-- A row as it was at an instant: --vars '{as_of: "2026-11-20 12:00:00"}'. By default as it is when dbt starts.
{% set instant = var('as_of', run_started_at.strftime('%Y-%m-%d %H:%M:%S.%f')[:-3]) %}
select
    salesid,
    qtysold,
    pricepaid,
    commission,
    __op,
    _hoodie_commit_time
from {{ as_of(source('tickit', 'sale'), instant) }}
where salesid = {{ var('sale_id', 200) }}
