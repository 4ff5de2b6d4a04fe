-- A row as each view of a merge-on-read table shows it: `_ro` what is compacted, `_rt` the log files as well.
{% for view in ('ro', 'rt') %}
    {% set sale = source('tickit', 'sale') %}
    select
        '_{{ view }}' as view_name,
        salesid,
        qtysold,
        pricepaid,
        commission,
        __op
    from {{ sale.incorporate(path={'identifier': sale.identifier ~ '_' ~ view}) }}
    where salesid = {{ var('sale_id', 200) }}
    {{ 'union all' if not loop.last }}
{% endfor %}
