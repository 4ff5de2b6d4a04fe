{#-
    dbt-athena's, but for a view that is there: with `--empty` or `--sample` it would show its readers no rows, or some, from then on. A
    table whose name the view takes is dbt's own, and goes once the view's select has been looked at: it is not lost for a typing error.
-#}
{% materialization view, adapter='athena', supported_languages=['sql'] %}
    {%- set existing = load_relation(this) -%}
    {%- if hudi_stays(this, existing) -%}
        {%- do return({'relations': [this.incorporate(type='view')]}) -%}
    {%- endif -%}
    {%- if existing is not none and not existing.is_view -%}
        {%- do athena_require_own(existing) -%}
        {%- do look_at(compiled_code) -%}
    {%- endif -%}
    {%- do return(dbt.materialization_view_athena()) -%}
{% endmaterialization %}

{#- dbt-athena's, which puts the select into brackets for its contract. -#}
{% macro athena__create_view_as(relation, sql) -%}
    {{- dbt.athena__create_view_as(relation, hudi_statement(sql)) -}}
{%- endmacro %}
