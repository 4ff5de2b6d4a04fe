{#-
    In place of dbt-athena's for Iceberg tables, which neither deletes rows nor finds those that a changed dimension reaches. With the
    strategy merge, a run leaves the table exactly as its full refresh would (`athena_merge_sql`): silver's timelines cannot be read
    from Athena, so the whole select is compared with the table. A select that may be a part of the rows (`hudi_part`) removes none,
    and a batch of a microbatch those of its own time.
-#}
{% materialization incremental, adapter='athena', supported_languages=['sql', 'python'] %}
    {%- set strategy = config.get('incremental_strategy') or 'merge' -%}
    {%- if resolve_table_type() != 'iceberg' or strategy not in ['merge', 'microbatch'] or model['language'] != 'sql' -%}
        {%- do return(dbt.materialization_incremental_athena()) -%}
    {%- endif -%}
    {%- do hudi_strategy() -%}
    {%- set on_schema_change = incremental_validate_on_schema_change(config.get('on_schema_change'), default='ignore') -%}
    {%- set existing = load_relation(this) -%}
    {%- if hudi_stays(this, existing) -%}
        {%- do return({'relations': [this.incorporate(type='table')]}) -%}
    {%- endif -%}
    {%- do athena_require_own(existing) -%}
    {%- if existing is none or should_full_refresh() -%}
        {%- do return(dbt.materialization_table_athena()) -%}
    {%- endif -%}
    {%- set part = hudi_part(compiled_code, strategy) -%}
    {%- if not athena_is_iceberg(existing) -%}
        {%- if not existing.is_view -%}
            {%- do hudi_require_whole(this, part, 'a table of another format') -%}
        {%- endif -%}
        {%- do return(dbt.materialization_table_athena()) -%}
    {%- endif -%}
    {%- do return(athena_merge(existing, compiled_code, on_schema_change, part)) -%}
{% endmaterialization %}
