{#- Types of a declaration are Spark's: Athena's queries have other words for some of them. -#}

{% macro athena__get_empty_schema_sql(columns) -%}
    select
        {%- for name, column in columns.items() %}
        cast(null as {{ dml_data_type(column['data_type']) }}) as {{ adapter.quote(column['name']) }}{{ ',' if not loop.last }}
        {%- endfor %}
    where false
{%- endmacro %}

{% macro athena__safe_cast(field, type) -%}
    try_cast({{ field }} as {{ dml_data_type(type) }})
{%- endmacro %}

{#- Days are counted as whole numbers of the size that Spark counts them in. -#}
{% macro athena__datediff(first_date, second_date, datepart) -%}
    cast({{ dbt.athena__datediff(first_date, second_date, datepart) }} as integer)
{%- endmacro %}
