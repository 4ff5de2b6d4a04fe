{#- Types of a declaration are Spark's: Athena's queries have other words for some of them. -#}

{% macro athena__get_empty_schema_sql(columns) -%}
    select
        {%- for name, column in columns.items() %}
        cast(null as {{ dml_data_type(column['data_type']) }}) as {{ adapter.quote(column['name']) }}{{ ',' if not loop.last }}
        {%- endfor %}
    where false
{%- endmacro %}

{#- A unit test gives a time as ISO 8601 has it, with a T, of which Athena would make a null. -#}
{% macro athena__safe_cast(field, type) -%}
    {%- set field = modules.re.sub("^'(\\d{4}-\\d{2}-\\d{2})T", "'\\1 ", field | string) if type.startswith('timestamp') else field -%}
    try_cast({{ field }} as {{ dml_data_type(type) }})
{%- endmacro %}

{#- Days are counted as whole numbers of the size that Spark counts them in. -#}
{% macro athena__datediff(first_date, second_date, datepart) -%}
    cast({{ dbt.athena__datediff(first_date, second_date, datepart) }} as integer)
{%- endmacro %}
