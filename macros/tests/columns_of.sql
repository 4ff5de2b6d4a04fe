{#- Some columns of a table with their types (`name`, `dtype`). -#}
{% macro columns_of(relation, names) -%}
    {%- set types, columns = hudi_types(adapter.dispatch('_columns_in')(relation)) if execute else {}, [] -%}
    {%- for name in names -%}
        {%- do columns.append({'name': name, 'dtype': types.get(name | lower, '')}) -%}
    {%- endfor -%}
    {%- do return(columns) -%}
{%- endmacro %}

{% macro spark___columns_in(relation) -%}
    {%- do return(hudi_described(relation).columns) -%}
{%- endmacro %}

{% macro athena___columns_in(relation) -%}
    {%- do return(adapter.get_columns_in_relation(relation_of_text(relation))) -%}
{%- endmacro %}
