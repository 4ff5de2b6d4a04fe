{#- A select without the semicolon that may end it: it becomes a part of other statements. -#}
{% macro hudi_statement(sql) -%}
    {%- do return(modules.re.sub('[\\s;]+$', '', sql)) -%}
{%- endmacro %}
