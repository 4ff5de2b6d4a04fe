{#- dbt-spark's, but for a view that is there: with `--empty` or `--sample` it would show its readers no rows, or some, from then on. -#}
{% materialization view, adapter='spark', supported_languages=['sql'] %}
    {%- set existing = load_relation(this) -%}
    {%- if hudi_stays(this, existing) -%}
        {%- do return({'relations': [this.incorporate(type='view')]}) -%}
    {%- endif -%}
    {%- do return(dbt.materialization_view_spark()) -%}
{% endmaterialization %}
