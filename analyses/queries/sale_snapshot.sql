-- A row as it is: what the last commit says, log files merged in.
select
    salesid,
    qtysold,
    pricepaid,
    commission,
    __op,
    _hoodie_commit_time
from {{ source('tickit', 'sale') }}
where salesid = {{ var('sale_id', 200) }}
