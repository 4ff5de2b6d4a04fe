{#-
    In place of dbt-athena's for Iceberg tables: the rows are checked, and their times are what Iceberg takes (`athena_rows`). Partitions
    are those of `partition_by`, which a model says once for every engine, or of dbt-athena's `partitioned_by`.
-#}
{% macro athena__create_table_as(temporary, relation, compiled_code, language='sql', skip_partitioning=false) -%}
    {%- if resolve_table_type() != 'iceberg' or language != 'sql' -%}
        {%- do return(dbt.athena__create_table_as(temporary, relation, compiled_code, language, skip_partitioning)) -%}
    {%- endif -%}
    {%- set compiled_code = hudi_statement(compiled_code) -%}
    {%- set naming, place = config.get('s3_data_naming', target.s3_data_naming), config.get('external_location') -%}
    {#- A clone has main's rows, by main's contract -#}
    {%- set is_cloned = flags.WHICH == 'clone' -%}
    {%- set is_model, partitions = model.resource_type == 'model' and not is_cloned, [] if skip_partitioning else athena_partitioning() -%}
    {%- if (is_model or is_cloned) and not temporary and (place or 'unique' not in naming) -%}
        {{ exceptions.raise_compiler_error(
            model.unique_id ~ ": got " ~ ("external_location = '" ~ place if place else "s3_data_naming = '" ~ naming) ~ "', expected "
            ~ "s3_data_naming = 'schema_table_unique' alone: of an Iceberg table each build needs a folder of its own, or it would delete the "
            ~ "files of the table that is there"
        ) }}
    {%- endif -%}
    {%- set location = adapter.generate_s3_location(
        relation, config.get('s3_data_dir') or target.s3_data_dir, naming, config.get('s3_tmp_table_dir', target.s3_tmp_table_dir), place,
        temporary
    ) -%}
    {%- set key = key_columns(config.get('unique_key'), model.unique_id) if is_model and config.get('unique_key') else none -%}
    {%- set columns = get_column_schema_from_query(compiled_code) -%}
    {%- if is_model -%}
        {%- do athena_require_columns(columns, key) -%}
    {%- endif -%}
    {%- do adapter.delete_from_s3(location) -%}
    create table {{ relation }}
    with (
        table_type = 'iceberg',
        is_external = false,
        location = '{{ location }}',
        {%- if partitions %}
        partitioning = array['{{ partitions | join("', '") }}'],
        {%- endif %}
        {%- if config.get('write_compression') %}
        write_compression = '{{ config.get('write_compression') }}',
        {%- endif %}
        {%- for name, value in (config.get('table_properties') or {}).items() %}
        {{ name }} = {{ value }},
        {%- endfor %}
        format = '{{ config.get('format') or 'parquet' }}'
    )
    as
    {{ compiled_code if is_cloned else athena_rows(compiled_code, columns, key) }}
{%- endmacro %}

{#- What dbt makes to learn the types of a unit test's columns is a view here: a table would have to have times of its own kind. -#}
{% macro athena__get_create_table_as_sql(temporary, relation, sql) -%}
    {%- if model.resource_type == 'unit_test' -%}
        {%- do return('create or replace view ' ~ relation ~ ' as ' ~ sql) -%}
    {%- endif -%}
    {%- do return(create_table_as(temporary, relation, sql)) -%}
{%- endmacro %}
