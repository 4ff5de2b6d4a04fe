{#- In how many rows that two tables both have each column that they both have differs, as one row. -#}
{% macro column_differences(ours, theirs, key) -%}
    select
    {%- for column in columns_of(ours, theirs) %}
        {%- set name = adapter.quote(column.name) %}
        count_if(
            {{ adapter.dispatch('_is_distinct')('ours.' ~ name, 'theirs.' ~ name, column.dtype) }}
        ) as {{ name }}{{ ',' if not loop.last }}
    {%- endfor %}
    from {{ ours }} as ours
    inner join {{ theirs }} as theirs
        on {{ hudi_equal('ours', 'theirs', key) }}
{%- endmacro %}

{% macro spark___is_distinct(left, right, type) -%}
    not {{ hudi_comparable(left, type) }} <=> {{ hudi_comparable(right, type) }}
{%- endmacro %}

{% macro athena___is_distinct(left, right, type) -%}
    {{ left }} is distinct from {{ right }}
{%- endmacro %}
