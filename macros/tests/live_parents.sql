{#- What the values of a test refer to: of a table that ingest lands the live rows, for a deleted row is no parent. -#}
{% macro live_parents(to) -%}
    {%- if not execute -%}
        {%- do return(to) -%}
    {%- endif -%}
    {%- for source in graph.sources.values() if source.schema == to.schema and source.identifier == to.identifier and _is_landed(source, graph) -%}
        {%- do return('(select * from ' ~ to ~ ' where ' ~ is_live() ~ ') as landed') -%}
    {%- endfor -%}
    {%- do return(to) -%}
{%- endmacro %}
