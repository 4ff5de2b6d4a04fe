{#-
    A temporary view of what a table is to hold. Its name holds the schema: the embedded session is one for all threads.
    Spark takes time travel into no view: a select with it is kept as a table. What the configuration names must be in it.
-#}
{% macro hudi_wanted(target, sql) -%}
    {%- if config.get('contract').enforced -%}
        {%- do get_assert_columns_equivalent(sql) -%}
    {%- endif -%}
    {%- set is_kept = modules.re.search('\\b(timestamp|version)\\s+as\\s+of\\b', sql, modules.re.IGNORECASE) -%}
    {%- if is_kept -%}
        {%- set wanted = hudi_beside(target, 'wanted') -%}
        {%- do hudi_keep(wanted, sql) -%}
    {%- else -%}
        {%- set wanted = api.Relation.create(identifier=target.schema ~ '__' ~ target.identifier ~ '__wanted', type='view') -%}
        {%- set wanted = wanted.include(database=false, schema=false) -%}
        {%- do run_query('create or replace temporary view ' ~ wanted ~ ' as ' ~ sql) -%}
    {%- endif -%}
    {%- do hudi_require_columns(adapter.get_columns_in_relation(wanted), model.unique_id) -%}
    {%- do return(wanted) -%}
{%- endmacro %}

{#- Drops what `hudi_wanted` has made. -#}
{% macro hudi_drop_wanted(wanted) -%}
    {%- do hudi_drop(wanted) if wanted.type == 'table' else run_query('drop view if exists ' ~ wanted) -%}
{%- endmacro %}
