{#- In place of dbt's: a source says when its newest row was changed in Spark's words, the only ones that `timestamp_millis` is among. -#}
{% macro athena__collect_freshness(source, loaded_at_field, filter) -%}
    {%- set field = modules.re.sub('timestamp_millis\\(([^()]+)\\)', "from_unixtime(\\1 / 1e3)", loaded_at_field) -%}
    {%- do return(dbt.default__collect_freshness(source, field, filter)) -%}
{%- endmacro %}
