{#- In how many rows that two tables both have each column differs, as one row. -#}
{% macro column_differences(ours, theirs, key, columns) -%}
    select
    {%- for column in columns %}
        count_if(not ours.{{ adapter.quote(column) }} <=> theirs.{{ adapter.quote(column) }}) as {{ adapter.quote(column) }}{{ ',' if not loop.last }}
    {%- endfor %}
    from {{ ours }} as ours
    inner join {{ theirs }} as theirs
        on {{ hudi_equal('ours', 'theirs', key) }}
{%- endmacro %}
