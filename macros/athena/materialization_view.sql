{#- dbt-athena's, but for a view that is there: with `--empty` or `--sample` it would show its readers no rows, or some, from then on. -#}
{% materialization view, adapter='athena', supported_languages=['sql'] %}
    {%- if hudi_stays(this, load_relation(this)) -%}
        {%- do return({'relations': [this.incorporate(type='view')]}) -%}
    {%- endif -%}
    {%- do return(dbt.materialization_view_athena()) -%}
{% endmaterialization %}
