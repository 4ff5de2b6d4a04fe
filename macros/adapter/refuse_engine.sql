{#- Only when the node is compiled: dbt reads every node of a project, whatever the target. -#}
{% macro refuse_engine(macro_name, reason) -%}
    {%- if execute -%}
        {{ exceptions.raise_compiler_error(macro_name ~ ": got the engine " ~ adapter.type() ~ ", expected spark: " ~ reason) }}
    {%- endif -%}
{%- endmacro %}
