{#- Has a select analysed, without reading a row of it. -#}
{% macro look_at(sql) -%}
    {%- do adapter.dispatch('look_at')(sql) -%}
{%- endmacro %}

{% macro spark__look_at(sql) -%}
    {%- do run_query('describe query ' ~ hudi_statement(sql)) -%}
{%- endmacro %}

{% macro athena__look_at(sql) -%}
    {%- do get_column_schema_from_query(hudi_statement(sql)) -%}
{%- endmacro %}
