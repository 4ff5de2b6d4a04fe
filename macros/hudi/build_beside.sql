{#-
    Builds a table beside what has its name, and names it when it is whole, as a Hudi table is. dbt-spark drops what has the name first: of
    a select that fails, or a format that Spark does not know, there would be no table left. It builds a first table in its place: of a run
    that was killed a folder would be left there, where Spark makes no table, or one with its rows.
-#}
{% macro build_beside(existing, sql) -%}
    {%- set built = hudi_beside(this, 'built') -%}

    {{ run_hooks(pre_hooks) }}

    {%- if model.resource_type == 'snapshot' -%}
        {%- do snapshot_require_keys(model['compiled_code']) -%}
    {%- endif -%}
    {%- call statement('main') -%}
        {{ create_table_as(false, built, sql) }}
    {%- endcall -%}
    {%- do return(named_when_whole(built, existing)) -%}
{%- endmacro %}

{#- The end of a materialization whose table was built beside: its comments, name and grants, and the hooks behind it. -#}
{% macro named_when_whole(built, existing) -%}
    {%- set target = this.incorporate(type='table') -%}
    {%- do persist_docs(built, model) -%}
    {%- do hudi_take_name(built, target, existing) -%}
    {%- do apply_grants(target, config.get('grants'), should_revoke(existing, full_refresh_mode=true)) -%}

    {{ run_hooks(post_hooks) }}

    {%- do return({'relations': [target]}) -%}
{%- endmacro %}

{#- Whether a model is: not where dbt-spark replaces a table of Delta or Iceberg, or makes the first one. A seed always is. -#}
{% macro files_are_built_beside(existing) -%}
    {%- set format = config.get('file_format') -%}
    {%- if model.resource_type == 'seed' -%}
        {%- do return(true) -%}
    {%- elif existing is none -%}
        {%- do return(format not in ['delta', 'iceberg']) -%}
    {%- endif -%}
    {%- do return(not (existing.is_delta and format == 'delta') and not (existing.is_iceberg and format == 'iceberg')) -%}
{%- endmacro %}

{#-
    dbt-spark's, but for a table of files without partitions: Spark removes all of its files before it has computed a row, and of a select
    that fails there would be no row left. Here another table takes its name.
-#}
{% macro get_insert_overwrite_sql(source_relation, target_relation, existing_relation) -%}
    {%- if config.get('partition_by') or not files_are_built_beside(existing_relation) -%}
        {%- do return(dbt.get_insert_overwrite_sql(source_relation, target_relation, existing_relation)) -%}
    {%- endif -%}
    {%- set built = hudi_beside(target_relation, 'built') -%}
    {%- set names = adapter.get_columns_in_relation(target_relation) | map(attribute='name') -%}
    {%- do run_query(create_table_as(false, built, 'select ' ~ hudi_quoted(names) ~ ' from ' ~ source_relation)) -%}
    {%- do hudi_take_name(built, target_relation, existing_relation) -%}
    {%- do return("select 'another table has taken its name' as result") -%}
{%- endmacro %}

{#-
    Removes the files of a table that is about to be dropped, where they are in a folder that dbt has given it below `location_root`: Spark
    drops such a table without them. Of Hudi's it drops them too.
-#}
{% macro files_remove(table) -%}
    {%- set root = config.get('location_root') -%}
    {%- set details = hudi_described(table).details if root else {} -%}
    {%- set ours = modules.re.escape((root or '').replace('file://', '').rstrip('/') ~ '/' ~ model.alias) ~ '(?:__[0-9a-f]{8})?$' -%}
    {%- if details.get('Provider') != 'hudi' and modules.re.match('(?:[\\w+.-]+:(?://[^/]*)?)?' ~ ours, details.get('Location', '')) -%}
        {%- do run_query('insert overwrite directory ' ~ hudi_text(details.Location) ~ ' using parquet select 1 as nothing where false') -%}
    {%- endif -%}
{%- endmacro %}

{#-
    In place of dbt-spark's: the folder of a table that is there is left to it, and so is one that a killed run has left. Spark makes no
    table where files are, or one that has their rows.
-#}
{% macro spark__location_clause() -%}
    {%- set location_root = config.get('location_root') -%}
    {%- if location_root is not none -%}
        location '{{ location_root }}/{{ model.alias }}{{ '__' ~ place_of_run() if files_are_built_beside(load_relation(this)) }}'
    {%- endif -%}
{%- endmacro %}

{#- What ends the name of a folder below `location_root`: of another run it is another one, and of a table of this name in another schema. -#}
{% macro place_of_run() -%}
    {%- do return(local_md5(invocation_id ~ '.' ~ this.schema)[:8]) -%}
{%- endmacro %}
