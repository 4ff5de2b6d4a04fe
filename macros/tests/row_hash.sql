{#- A hash of a row's columns. Spark's passes over nulls: where they stand is part of it. Maps are compared as JSON has them. -#}
{% macro row_hash(columns) -%}
    {%- set values, places = [], [] -%}
    {%- for column in columns -%}
        {%- do values.append(hudi_comparable(adapter.quote(column.name), column.dtype)) -%}
        {%- do places.append(adapter.quote(column.name) ~ ' is null') -%}
    {%- endfor -%}
    xxhash64({{ values | join(', ') }}, array({{ places | join(', ') }}))
{%- endmacro %}
