{#-
    In place of dbt-athena's for Iceberg tables, which neither deletes rows nor finds those that a changed dimension reaches. With the
    strategy merge, a run leaves the table exactly as its full refresh would (`athena_merge_sql`): silver's timelines cannot be read
    from Athena, so the whole select is compared with the table. A select that may be a part of the rows (`hudi_part`) removes none,
    one that asks for variables of the command line is refused where it would, and a batch of a microbatch those of its own time. What
    appends is dbt-athena's, to a table that is there.
-#}
{% materialization incremental, adapter='athena', supported_languages=['sql', 'python'] %}
    {%- set strategy = config.get('incremental_strategy') or 'merge' -%}
    {%- set existing = load_relation(this) -%}
    {%- if model['language'] == 'sql' and hudi_stays(this, existing) -%}
        {%- do return({'relations': [this.incorporate(type='table')]}) -%}
    {%- endif -%}
    {%- do athena_require_own(existing) -%}
    {%- if resolve_table_type() != 'iceberg' or model['language'] != 'sql' -%}
        {%- do return(dbt.materialization_incremental_athena()) -%}
    {%- endif -%}
    {%- do validate_get_incremental_strategy(strategy, 'iceberg') -%}
    {%- do hudi_strategy() -%}
    {%- set on_schema_change = incremental_validate_on_schema_change(config.get('on_schema_change'), default='ignore') -%}
    {%- if existing is none or existing.is_view or should_full_refresh() -%}
        {%- do return(dbt.materialization_table_athena()) -%}
    {%- endif -%}
    {%- set part = hudi_part(compiled_code, strategy) -%}
    {%- set given = hudi_given_variables() if part is none else [] -%}
    {%- if not athena_is_iceberg(existing) -%}
        {%- set part = 'its text asks for --vars ' ~ given | join(', ') if given else part -%}
        {%- do hudi_require_whole(this, part, 'a table of another format') -%}
        {%- do return(dbt.materialization_table_athena()) -%}
    {%- elif strategy == 'append' -%}
        {%- do return(dbt.materialization_incremental_athena()) -%}
    {%- endif -%}
    {%- do return(athena_merge(existing, hudi_statement(compiled_code), on_schema_change, part, given)) -%}
{% endmaterialization %}
