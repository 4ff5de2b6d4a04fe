-- Fails if buyer and seller of a sale are the same user.
select
    sale_id,
    buyer_id
from {{ ref('fct_sales') }}
where buyer_id = seller_id
