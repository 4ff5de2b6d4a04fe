-- A row where a commit after an instant has changed it: --vars '{since: "20261120120000000"}'. By default any commit.
select
    salesid,
    qtysold,
    pricepaid,
    commission,
    __op,
    _hoodie_commit_time
from hudi_table_changes('{{ source("tickit", "sale") }}', 'latest_state', '{{ var("since", "earliest") }}')
where salesid = {{ var('sale_id', 200) }}
