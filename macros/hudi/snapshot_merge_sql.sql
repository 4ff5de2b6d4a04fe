{#-
    In place of dbt-spark's for Hudi tables: that one leaves Hudi to read the staged rows several times, each time with
    another current time, and to update one column of a row it has replaced by the source's.

    What is to be written is made of whole rows: versions that end, as they stand but for their end, and new versions, null in a
    column that the select has no longer. They hold for the table as it was: where another run has written to it meanwhile, it
    is looked at again. One that writes between that look and this run's commit has begun the same versions, by their ids: the
    later commit takes their place.
-#}
{% macro spark__snapshot_merge_sql(target, source, insert_cols) -%}
    {%- if config.get('file_format') != 'hudi' -%}
        {%- do return(dbt.spark__snapshot_merge_sql(target, source, insert_cols)) -%}
    {%- endif -%}
    {%- set names = config.get('snapshot_table_column_names') or get_snapshot_table_column_names() -%}
    {%- set target_columns = adapter.get_columns_in_relation(target) -%}
    {%- set columns = target_columns | map(attribute='name') | list -%}
    {%- set version, valid_to = adapter.quote(names.dbt_scd_id), adapter.quote(names.dbt_valid_to) -%}
    {%- set is_current = 'present.' ~ valid_to ~ ' is null' -%}
    {%- if config.get('dbt_valid_to_current') -%}
        {%- set is_current = '(' ~ is_current ~ ' or present.' ~ valid_to ~ ' = ' ~ config.get('dbt_valid_to_current') ~ ')' -%}
    {%- endif -%}
    {%- set staged, versions, run = hudi_beside(target, 'staged'), hudi_beside(target, 'versions'), {'is_done': false} -%}
    {%- for attempt in range(3) if not run.is_done -%}
        {%- set instants = hudi_instants(target) -%}
        {%- do hudi_require_past(target, instants[0]) -%}
        {%- do hudi_materialize(staged, _staged_versions(target, source, names)) -%}
        {%- set staged_columns = adapter.get_columns_in_relation(staged) | map(attribute='name') | map('lower') | list -%}
        {%- set query -%}
            select
                {%- for column in columns %}
                {{ 'staged' if column | lower == names.dbt_valid_to | lower else 'present' }}.{{ adapter.quote(column) }}{{ ',' if not loop.last }}
                {%- endfor %}
            from {{ target }} as present
            inner join {{ staged }} as staged on present.{{ version }} = staged.{{ version }}
            where {{ is_current }} and staged.dbt_change_type in ('update', 'delete')
            union all
            select
                {%- for column in target_columns %}
                {%- set name = adapter.quote(column.name) %}
                {{ 'staged._lake_version' if column.name | lower == names.dbt_scd_id | lower else 'staged.' ~ name
                    if column.name | lower in staged_columns else 'cast(null as ' ~ column.dtype ~ ')' }} as {{ name }}{{ ',' if not loop.last }}
                {%- endfor %}
            from {{ staged }} as staged
            where
                staged.dbt_change_type = 'insert'
                and not exists (select 1 from {{ target }} as present where present.{{ version }} = staged._lake_version)
        {%- endset -%}
        {%- do hudi_materialize(versions, query) -%}
        {%- set row_count = run_query('select count(*) as row_count from ' ~ versions).columns[0].values()[0] -%}
        {%- set upsert = hudi_upsert_sql(target, versions, columns) if row_count > 0 -%}
        {#- Both would end the same version, and begin one each -#}
        {%- if row_count > 0 and hudi_instants(target) != instants -%}
            {%- do log(target ~ ': another run has written to it meanwhile: its versions are compared again', info=true) -%}
        {%- else -%}
            {%- if row_count > 0 -%}
                {%- do run_query(upsert) -%}
            {%- endif -%}
            {%- do run.update({'is_done': true}) -%}
        {%- endif -%}
        {%- do hudi_drop(versions) -%}
        {%- do hudi_drop(staged) -%}
    {%- endfor -%}
    {%- if not run.is_done -%}
        {%- do hudi_refuse_writers(target) -%}
    {%- endif -%}
    {#- dbt runs what is returned -#}
    {%- do return('drop table if exists ' ~ staged ~ ' purge') -%}
{%- endmacro %}

{#-
    What dbt has staged, with the ids of versions that begin (`_lake_version`): they follow from the key and its last version, so that
    two runs that look at the same table give one id. dbt's own holds the time of the run, where columns are compared.
-#}
{% macro _staged_versions(target, staged, names) -%}
    {%- set unique_key = config.get('unique_key') -%}
    {%- set keys = ['dbt_unique_key'] if unique_key is string else [] -%}
    {%- for key in unique_key if unique_key is not string -%}
        {%- do keys.append('dbt_unique_key_' ~ loop.index) -%}
    {%- endfor -%}
    {%- set version, began, ended = adapter.quote(names.dbt_scd_id), adapter.quote(names.dbt_valid_from), adapter.quote(names.dbt_valid_to) -%}
    {%- set arguments = ['last_versions.version_count', 'last_versions.last_version'] -%}
    {%- for key in keys -%}
        {%- do arguments.append('staged.' ~ key) -%}
    {%- endfor -%}
    select
        staged.*,
        {{ snapshot_hash_arguments(arguments) }} as _lake_version
    from {{ staged }} as staged
    left join (
        select
            {{ keys | join(', ') }},
            count(*) as version_count,
            max(struct({{ began }}, {{ ended }} is null, {{ ended }}, {{ version }} as last_version)).last_version as last_version
        from (select {{ version }}, {{ began }}, {{ ended }}, {{ unique_key_fields(unique_key) }} from {{ target }})
        group by {{ keys | join(', ') }}
    ) as last_versions
        on {% for key in keys %}staged.{{ key }} <=> last_versions.{{ key }}{{ ' and ' if not loop.last }}{% endfor %}
{%- endmacro %}
