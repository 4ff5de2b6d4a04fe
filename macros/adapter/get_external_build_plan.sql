{#-
    What `dbt run-operation stage_external_sources` does for a silver table on Athena: dbt_external_tables has Spark and four
    warehouses, and looks for the plan of another adapter in the project. The table is registered in Glue as Hudi's own sync does
    it, by Athena's DDL (https://docs.aws.amazon.com/athena/latest/ug/querying-hudi-in-athena-creating-hudi-tables.html). A table
    that is there gets the columns that it lacks, and is registered anew with `--vars 'ext_full_refresh: true'`; files stay.

    Of a merge-on-read table the table itself and `_ro` read what is compacted, for Athena cannot read timestamps of log files;
    `_rt` reads these too.
-#}
{% macro athena__get_external_build_plan(source_node) -%}
    {%- set wanted = _external_hudi_table(source_node) -%}
    {%- set schema = '`' ~ source_node.schema | lower ~ '`' -%}
    {%- set plan = [] -%}
    {%- for name, reads_logs in wanted.tables.items() -%}
        {%- set table = schema ~ '.`' ~ name ~ '`' -%}
        {%- set existing = adapter.get_relation(database=source_node.database, schema=source_node.schema | lower, identifier=name) -%}
        {%- set again = existing is not none and var('ext_full_refresh', false) -%}
        {%- if existing is none or again -%}
            {%- do plan.append('create schema if not exists ' ~ schema) if not plan -%}
            {%- do plan.append('drop table if exists ' ~ table) if again -%}
            {%- do plan.append(_external_hudi_ddl(table, wanted, reads_logs)) -%}
        {%- else -%}
            {%- do plan.extend(_external_hudi_changes(existing, table, wanted, wanted.told_of)) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do return(plan) -%}
{%- endmacro %}

{% macro _external_hudi_table(source_node) -%}
    {%- set told_of = source_node.source_name ~ '.' ~ source_node.name -%}
    {%- set external = source_node.external -%}
    {%- set inherited = (source_node.source_meta or {}).get('ingest', {}) -%}
    {%- set ingest = dict(inherited, **(source_node.config.get('meta') or {}).get('ingest', {})) -%}
    {%- if (external.using or 'hudi') != 'hudi' -%}
        {%- do _refuse_external(told_of, 'external.using = ' ~ external.using, 'hudi: other tables are not registered on Athena') -%}
    {%- endif -%}
    {%- if ingest.get('partition_by') or external.partitions -%}
        {%- do _refuse_external(
            told_of, 'a table with partitions',
            'one without: Athena finds no partitions of Hudi tables by itself; `lake ingest` on S3 registers them in Glue as it lands them'
        ) -%}
    {%- endif -%}
    {%- if ingest.get('table_version', 6) > 6 -%}
        {%- do _refuse_external(told_of, 'table_version = ' ~ ingest.table_version, '6, which Athena reads: land the table anew') -%}
    {%- endif -%}
    {%- set columns = _external_hudi_columns(source_node, told_of) -%}
    {%- set name = source_node.identifier | lower -%}
    {%- set is_merge_on_read = ingest.get('table_type', 'mor') == 'mor' -%}
    {%- do return({
        'told_of': told_of,
        'location': _external_location(source_node, told_of),
        'columns': columns,
        'tables': {name: false, name ~ '_ro': false, name ~ '_rt': true} if is_merge_on_read else {name: false},
    }) -%}
{%- endmacro %}

{#- Where `lake ingest` has the table: below the folder of its schema, unless the declaration names a place of its own. -#}
{% macro _external_location(source_node, told_of) -%}
    {%- set location, root = source_node.external.location or source_node.name, env_var('LAKE_ROOT', '') -%}
    {%- if '://' not in location and root -%}
        {%- set location = root.rstrip('/') ~ '/' ~ source_node.schema | lower ~ '.db/' ~ location -%}
    {%- endif -%}
    {%- if not modules.re.match('s3a?://', location) -%}
        {%- do _refuse_external(
            told_of, "external.location = '" ~ location ~ "' and LAKE_ROOT = '" ~ root ~ "'",
            's3://..., as one or the other: Athena reads S3 alone'
        ) -%}
    {%- endif -%}
    {%- do return('s3://' ~ location.split('://', 1)[1].rstrip('/') ~ '/') -%}
{%- endmacro %}

{#- Hudi's own columns, the declared ones, and what ingest adds to every table (docs/reference/silver.md). -#}
{% macro _external_hudi_columns(source_node, told_of) -%}
    {%- set columns = {} -%}
    {%- for name in ['commit_time', 'commit_seqno', 'record_key', 'partition_path', 'file_name'] -%}
        {%- do columns.update({'_hoodie_' ~ name: 'string'}) -%}
    {%- endfor -%}
    {%- for name, column in source_node.columns.items() -%}
        {%- set policy = (column.config.get('meta') or {}).get('ingest', {}).get('policy') -%}
        {%- if not column.data_type -%}
            {%- do _refuse_external(told_of, "column '" ~ name ~ "' without data_type", 'a type of each column') -%}
        {%- endif -%}
        {%- do columns.update({name | lower: 'string' if policy == 'hash' else column.data_type}) if policy != 'exclude' -%}
    {%- endfor -%}
    {%- if columns | length == 5 -%}
        {%- do _refuse_external(told_of, 'no columns', 'the declared ones') -%}
    {%- endif -%}
    {%- do columns.update({'__op': 'string', '__deleted': 'string', '__source_ts_ms': 'bigint', '__position': 'string'}) -%}
    {%- do return(columns) -%}
{%- endmacro %}

{% macro _external_hudi_ddl(table, wanted, reads_logs) -%}
    {%- set input_format = 'realtime.HoodieParquetRealtimeInputFormat' if reads_logs else 'HoodieParquetInputFormat' -%}
    create external table {{ table }} (
        {%- for name, type in wanted.columns.items() %}
        `{{ name }}` {{ type }}{{ ',' if not loop.last }}
        {%- endfor %}
    )
    row format serde 'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe'
    stored as inputformat 'org.apache.hudi.hadoop.{{ input_format }}'
    outputformat 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat'
    location '{{ wanted.location }}'
{%- endmacro %}

{#- What a table that is there lacks. One that is another, by its place, is not touched. -#}
{% macro _external_hudi_changes(existing, table, wanted, told_of) -%}
    {%- set place = (adapter.get_glue_table_location(existing) or '').replace('s3a://', 's3://').rstrip('/') ~ '/' -%}
    {%- if place != wanted.location -%}
        {%- do _refuse_external(
            told_of, table ~ ' at ' ~ place, wanted.location ~ ": --vars 'ext_full_refresh: true' registers it anew, and leaves the files"
        ) -%}
    {%- endif -%}
    {%- set known = adapter.get_columns_in_relation(existing) | map(attribute='name') | map('lower') | list -%}
    {%- set added = [] -%}
    {%- for name, type in wanted.columns.items() if name not in known -%}
        {%- do added.append('`' ~ name ~ '` ' ~ type) -%}
    {%- endfor -%}
    {%- do return(['alter table ' ~ table ~ ' add columns (' ~ added | join(', ') ~ ')'] if added else []) -%}
{%- endmacro %}

{% macro _refuse_external(told_of, found, expected) -%}
    {{ exceptions.raise_compiler_error(told_of ~ ": got " ~ found ~ ", expected " ~ expected) }}
{%- endmacro %}
