{#-
    A temporary view of what a table is to hold. Its name holds the schema: the embedded session is one for all threads.
    Spark takes time travel into no view: a select with it is kept as a table.
-#}
{% macro hudi_wanted(target, sql) -%}
    {%- if config.get('contract').enforced -%}
        {%- do get_assert_columns_equivalent(sql) -%}
    {%- endif -%}
    {%- if modules.re.search('\\b(timestamp|version)\\s+as\\s+of\\b', sql, modules.re.IGNORECASE) -%}
        {%- set wanted = hudi_beside(target, 'wanted') -%}
        {%- do hudi_keep(wanted, sql) -%}
        {%- do return(wanted) -%}
    {%- endif -%}
    {%- set wanted = api.Relation.create(identifier=target.schema ~ '__' ~ target.identifier ~ '__wanted', type='view') -%}
    {%- set wanted = wanted.include(database=false, schema=false) -%}
    {%- do run_query('create or replace temporary view ' ~ wanted ~ ' as ' ~ sql) -%}
    {%- do return(wanted) -%}
{%- endmacro %}

{#- Drops what `hudi_wanted` has made. -#}
{% macro hudi_drop_wanted(wanted) -%}
    {%- do run_query('drop ' ~ wanted.type ~ ' if exists ' ~ wanted ~ (' purge' if wanted.type == 'table' else '')) -%}
{%- endmacro %}
