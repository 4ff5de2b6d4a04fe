-- A row as the commits between two instants have left it: --vars '{since: "earliest", until: "20261120120000000"}'.
{% set until = var('until', run_started_at.strftime('%Y%m%d%H%M%S%f')[:-3]) %}
{% set sale = source('tickit', 'sale') %}
select
    salesid,
    qtysold,
    pricepaid,
    commission,
    __op,
    _hoodie_commit_time
from hudi_table_changes('{{ sale }}', 'latest_state', '{{ var("since", "earliest") }}', '{{ until }}')
where salesid = {{ var('sale_id', 200) }}
