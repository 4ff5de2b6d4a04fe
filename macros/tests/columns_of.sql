{#- The columns that two tables both have, with the types of the first (`name`, `dtype`). -#}
{% macro columns_of(ours, theirs) -%}
    {%- set columns = [] -%}
    {%- if execute -%}
        {%- set known = hudi_types(adapter.dispatch('_columns_in')(theirs)) -%}
        {%- for column in adapter.dispatch('_columns_in')(ours) if column.name | lower in known -%}
            {%- do columns.append(column) -%}
        {%- endfor -%}
    {%- endif -%}
    {%- do return(columns) -%}
{%- endmacro %}

{% macro spark___columns_in(relation) -%}
    {%- do return(hudi_described(relation).columns) -%}
{%- endmacro %}

{% macro athena___columns_in(relation) -%}
    {%- do return(adapter.get_columns_in_relation(relation_of_text(relation))) -%}
{%- endmacro %}
