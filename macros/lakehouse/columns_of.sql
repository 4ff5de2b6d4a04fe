{#- Some columns of a table with their types (`name`, `dtype`). -#}
{% macro columns_of(relation, names) -%}
    {%- set types, columns = {}, [] -%}
    {%- for row in run_query('describe table ' ~ relation) if execute -%}
        {%- do types.update({row[0] | lower: row[1]}) -%}
    {%- endfor -%}
    {%- for name in names -%}
        {%- do columns.append({'name': name, 'dtype': types.get(name | lower, '')}) -%}
    {%- endfor -%}
    {%- do return(columns) -%}
{%- endmacro %}
