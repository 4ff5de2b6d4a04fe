{#-
    In place of dbt-spark's for Hudi tables: that one leaves Hudi to read the staged rows several times, each time with
    another current time, and to update one column of a row it has replaced by the source's.

    What is to be written is made of whole rows: versions that end, as they stand but for their end, and new versions, null in a
    column that the select has no longer. They hold for the table as it was: where another run has written to it meanwhile, it
    is looked at again.
-#}
{% macro spark__snapshot_merge_sql(target, source, insert_cols) -%}
    {%- if config.get('file_format') != 'hudi' -%}
        {%- do return(dbt.spark__snapshot_merge_sql(target, source, insert_cols)) -%}
    {%- endif -%}
    {%- set names = config.get('snapshot_table_column_names') or get_snapshot_table_column_names() -%}
    {%- set columns = adapter.get_columns_in_relation(target) | map(attribute='name') | list -%}
    {%- set version, valid_to = adapter.quote(names.dbt_scd_id), adapter.quote(names.dbt_valid_to) -%}
    {%- set is_current = 'present.' ~ valid_to ~ ' is null' -%}
    {%- if config.get('dbt_valid_to_current') -%}
        {%- set is_current = '(' ~ is_current ~ ' or present.' ~ valid_to ~ ' = ' ~ config.get('dbt_valid_to_current') ~ ')' -%}
    {%- endif -%}
    {%- set staged, versions, run = hudi_beside(target, 'staged'), hudi_beside(target, 'versions'), {'is_done': false} -%}
    {%- for attempt in range(3) if not run.is_done -%}
        {%- set instants = hudi_instants(target) -%}
        {%- do hudi_keep(staged, 'select * from ' ~ source) -%}
        {%- set query -%}
            select
                {%- for column in columns %}
                {{ 'staged' if column | lower == names.dbt_valid_to | lower else 'present' }}.{{ adapter.quote(column) }}{{ ',' if not loop.last }}
                {%- endfor %}
            from {{ target }} as present
            inner join {{ staged }} as staged on present.{{ version }} = staged.{{ version }}
            where {{ is_current }} and staged.dbt_change_type in ('update', 'delete')
            union all
            {{ hudi_in_order(target, staged ~ ' as staged', adapter.get_columns_in_relation(staged) | map(attribute='name') | list) }}
            where
                staged.dbt_change_type = 'insert'
                and not exists (select 1 from {{ target }} as present where present.{{ version }} = staged.{{ version }})
        {%- endset -%}
        {%- do hudi_keep(versions, query) -%}
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
