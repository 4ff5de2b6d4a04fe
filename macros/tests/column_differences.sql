{#- In how many rows that two tables both have each column differs, as one row. -#}
{% macro column_differences(ours, theirs, key, columns) -%}
    select
    {%- for column in columns_of(ours, columns) %}
        {%- set name = adapter.quote(column.name) %}
        count_if(
            not {{ hudi_comparable('ours.' ~ name, column.dtype) }} <=> {{ hudi_comparable('theirs.' ~ name, column.dtype) }}
        ) as {{ name }}{{ ',' if not loop.last }}
    {%- endfor %}
    from {{ ours }} as ours
    inner join {{ theirs }} as theirs
        on {{ hudi_equal('ours', 'theirs', key) }}
{%- endmacro %}
