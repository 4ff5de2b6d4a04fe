{#- A hash of a row's columns. Spark's passes over nulls: where they stand is part of it. Maps are compared as JSON has them. -#}
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
        {%- do values.append(hudi_comparable(adapter.quote(column.name), column.dtype)) -%}
        {%- do places.append(adapter.quote(column.name) ~ ' is null') -%}
    {%- endfor -%}
    xxhash64({{ values | join(', ') }}, array({{ places | join(', ') }}))
{%- endmacro %}
