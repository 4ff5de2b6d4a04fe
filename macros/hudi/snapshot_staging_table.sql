{#-
    In place of dbt-spark's for Hudi tables: its view has one name for all runs, of which one would take it from under the other. A
    temporary view is the session's own, and goes with it. The pre-hooks have run by then: the keys are those of the rows that are staged.
-#}
{% macro spark_build_snapshot_staging_table(strategy, sql, target_relation) -%}
    {%- if config.get('file_format') != 'hudi' -%}
        {%- do return(dbt.spark_build_snapshot_staging_table(strategy, sql, target_relation)) -%}
    {%- endif -%}
    {%- do snapshot_require_keys(sql) -%}
    {%- set staging = hudi_view_of_session(target_relation, 'staging') -%}
    {%- do run_query('create or replace temporary view ' ~ staging ~ ' as ' ~ snapshot_staging_table(strategy, sql, target_relation)) -%}
    {%- do return(staging) -%}
{%- endmacro %}
