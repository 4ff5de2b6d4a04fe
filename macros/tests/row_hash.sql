{#- A hash of a row's columns. Spark's passes over nulls: where they stand is part of it. What has elements is compared as JSON has it. -#}
{% macro row_hash(columns) -%}
    {{ return(adapter.dispatch('row_hash')(columns)) }}
{%- endmacro %}

{#- As JSON has the row: a null is a value there, and each value stands at its place. Times have the digits of a table's. -#}
{% macro athena__row_hash(columns) -%}
    {%- set values = [] -%}
    {%- for column in columns -%}
        {%- set name = adapter.quote(column.name) -%}
        {%- do values.append('cast(' ~ name ~ ' as timestamp(6))' if column.dtype == 'timestamp' else name) -%}
    {%- endfor -%}
    from_big_endian_64(xxhash64(to_utf8(json_format(cast(row({{ values | join(', ') }}) as json)))))
{%- endmacro %}

{% macro spark__row_hash(columns) -%}
    {%- set values, places = [], [] -%}
    {%- for column in columns -%}
        {%- set name, has_elements = adapter.quote(column.name), hudi_has_elements([column]) -%}
        {%- do values.append(row_as_json(name) if has_elements else name) -%}
        {%- do places.append(name ~ ' is null') -%}
    {%- endfor -%}
    xxhash64({{ values | join(', ') }}, array({{ places | join(', ') }}))
{%- endmacro %}
