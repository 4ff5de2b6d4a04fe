{#-
    dbt-spark's, with a look at what it does not look at: a Hudi table that is there keeps its versions where a command reads
    no rows, or some, of the upstreams; a column keeps its type; and a current version stays one. That a key has one row, with a value
    in each of its columns, is asked behind the hooks (`build_beside`, `spark_build_snapshot_staging_table`).
-#}
{% materialization snapshot, adapter='spark' %}
    {%- if config.get('file_format') == 'hudi' -%}
        {%- do hudi_options() -%}    {#- also where the table is there -#}
        {%- set existing = hudi_present(this) -%}
        {#- Also with --full-refresh: dbt never builds a snapshot anew -#}
        {%- if existing is not none and existing.is_hudi and hudi_stays(this, existing, is_replaced=false) -%}
            {{ return({'relations': [this.incorporate(type='table')]}) }}
        {%- endif -%}
        {%- set columns = [] -%}
        {%- for row in run_query('describe query ' ~ model['compiled_code']) -%}
            {%- do columns.append({'name': row[0], 'dtype': row[1]}) -%}
        {%- endfor -%}
        {%- do hudi_require_types(columns, model.unique_id) -%}
        {%- if existing is not none and existing.is_hudi -%}
            {%- do snapshot_require_columns(existing, columns) -%}
            {%- do snapshot_require_ends(existing) -%}
            {%- do snapshot_require_record_key(existing) -%}
        {%- endif -%}
        {%- if existing is none -%}
            {#- Of a run that is killed dbt would leave a folder in its place that is no table, and each later one failed -#}
            {%- set strategy = strategy_dispatch(config.get('strategy'))(model, 'snapshotted_data', 'source_data', model['config'], false) -%}
            {{ return(build_beside(none, build_snapshot_table(strategy, model['compiled_code']))) }}
        {%- elif existing.is_hudi -%}
            {%- do snapshot_drop_staged_columns(existing) -%}
        {%- endif -%}
    {%- endif -%}
    {{ return(dbt.materialization_snapshot_spark()) }}
{% endmaterialization %}
