{#-
    In place of dbt-spark's: of a snapshot with a composite key, that one makes the columns by which dbt joins columns of the
    table, and the next run finds each of them twice.
-#}
{% macro spark__create_columns(relation, columns) -%}
    {%- set own = [] -%}
    {%- for column in columns if not _is_staged_key(column.name) -%}
        {%- do own.append(column) -%}
    {%- endfor -%}
    {%- do return(dbt.spark__create_columns(relation, own)) -%}
{%- endmacro %}

{#- Takes these columns out of a snapshot that got them before. The versions stay as they are. -#}
{% macro snapshot_drop_staged_columns(existing) -%}
    {%- set names = adapter.get_columns_in_relation(existing) | map(attribute='name') | list -%}
    {%- set kept = [] -%}
    {%- for name in names if not _is_staged_key(name) -%}
        {%- do kept.append(name) -%}
    {%- endfor -%}
    {%- if kept | length < names | length -%}
        {%- do log(existing ~ ': it is built anew without the columns dbt_unique_key_*, which a run of dbt-spark alone has left', info=true) -%}
        {%- set whole = hudi_view_of_session(existing, 'whole') -%}
        {%- do run_query('create or replace temporary view ' ~ whole ~ ' as select ' ~ hudi_quoted(kept) ~ ' from ' ~ existing) -%}
        {%- do hudi_rebuild(existing, existing, whole) -%}
        {%- do run_query('drop view if exists ' ~ whole) -%}
    {%- endif -%}
{%- endmacro %}

{% macro _is_staged_key(name) -%}
    {%- do return(modules.re.fullmatch('dbt_unique_key_[0-9]+', name | lower) is not none) -%}
{%- endmacro %}
