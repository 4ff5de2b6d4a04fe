{#-
    dbt-spark's, but for a view that is there: with `--empty` or `--sample` it would show its readers no rows, or some, from then on.
-#}
{% materialization view, adapter='spark', supported_languages=['sql'] %}
    {%- set existing = load_relation(this) -%}
    {%- if hudi_stays(this, existing) -%}
        {%- do return({'relations': [this.incorporate(type='view')]}) -%}
    {%- endif -%}
    {%- do return(dbt.materialization_view_spark()) -%}
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

{#-
    In place of dbt-spark's: a view keeps, for the models that read it, the time zone of the session, of which Spark makes its dates and
    texts from then on, the variables of the command line by which it was made, and those of them that its text asks for (`given`).
-#}
{% macro spark__create_view_as(relation, sql) -%}
    {%- set variables = hudi_variables() -%}
    create or replace view {{ relation }}
    {%- if config.persist_column_docs() %}
    (
        {{ get_persist_docs_column_list(model.columns, get_columns_in_query(sql)) }}
    )
    {%- endif %}
    {{ comment_clause() }}
    tblproperties (
        'lakehouse.zone' = '${spark.sql.session.timeZone}'
        {%- if variables and model.resource_type == 'model' %},
        'lakehouse.variables' = {{ hudi_text(variables | join(' ')) }},
        'lakehouse.given' = {{ hudi_text(hudi_given_variables() | join(' ')) }}
        {%- endif %}
    )
    {%- if config.get('contract').enforced %}
    {{ get_assert_columns_equivalent(sql) }}
    {%- endif %}
    as
    {{ sql }}
{%- endmacro %}
