{#-
    dbt-spark's, but for a view that is there: with `--empty` or `--sample` it would show its readers no rows, or some, from then on. A view
    keeps the variables of the command line by which it was made, and those of them that its text asks for (`given`), for the models that
    read it.
-#}
{% materialization view, adapter='spark', supported_languages=['sql'] %}
    {%- set existing = load_relation(this) -%}
    {%- if hudi_stays(this, existing) -%}
        {%- do return({'relations': [this.incorporate(type='view')]}) -%}
    {%- endif -%}
    {%- set made, variables = dbt.materialization_view_spark(), hudi_variables() -%}
    {%- if variables -%}
        {%- do run_query(
            'alter view ' ~ this ~ " set tblproperties ('lakehouse.variables' = " ~ hudi_text(variables | join(' '))
            ~ (", 'lakehouse.given' = " ~ hudi_text(hudi_given_variables() | join(' ')) if hudi_given_variables() else '') ~ ')'
        ) -%}
    {%- endif -%}
    {%- do return(made) -%}
{% endmaterialization %}

{#- In place of dbt's, for a table whose name a view takes: it goes once the view has been made beside it, and is not lost for a typing error. -#}
{% macro spark__handle_existing_table(full_refresh, old_relation) -%}
    {%- set tried = hudi_beside(old_relation, 'tried').incorporate(type='view') -%}
    {%- call statement('tried') -%}
        {{ get_create_view_as_sql(tried, model.compiled_code) }}
    {%- endcall -%}
    {%- do run_query('drop view ' ~ tried) -%}
    {%- do dbt.default__handle_existing_table(full_refresh, old_relation) -%}
{%- endmacro %}
