{#- Some columns of a table with their types (`name`, `dtype`). -#}
{% macro columns_of(relation, names) -%}
    {%- set types, columns = hudi_types(hudi_described(relation).columns) if execute else {}, [] -%}
    {%- for name in names -%}
        {%- do columns.append({'name': name, 'dtype': types.get(name | lower, '')}) -%}
    {%- endfor -%}
    {%- do return(columns) -%}
{%- endmacro %}
