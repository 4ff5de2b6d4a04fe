{#-
    A temporary view of what a table is to hold. Its name holds the schema: the embedded session is one for all threads.
-#}
{% macro hudi_wanted(target, sql) -%}
    {%- set wanted = api.Relation.create(identifier=target.schema ~ '__' ~ target.identifier ~ '__wanted', type='view') -%}
    {%- set wanted = wanted.include(database=false, schema=false) -%}
    {%- if config.get('contract').enforced -%}
        {%- do get_assert_columns_equivalent(sql) -%}
    {%- endif -%}
    {%- do run_query('create or replace temporary view ' ~ wanted ~ ' as ' ~ sql) -%}
    {%- do return(wanted) -%}
{%- endmacro %}
