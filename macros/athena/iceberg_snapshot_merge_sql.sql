{#-
    In place of dbt-athena's: a row that is back as it was has the id of its version that ended, and was never inserted. It begins a
    version with an id of its own.
-#}
{% macro iceberg_snapshot_merge_sql(target, source, insert_cols) -%}
    {%- set names = config.get('snapshot_table_column_names') or get_snapshot_table_column_names() -%}
    {%- set version, ended = adapter.quote(names.dbt_scd_id), adapter.quote(names.dbt_valid_to) -%}
    {%- set columns = [] -%}
    {%- for name in insert_cols -%}
        {%- do columns.append('changed._lake_version' if name | replace('"', '') | lower == names.dbt_scd_id | lower else 'changed.' ~ name) -%}
    {%- endfor -%}
    merge into {{ target }} as present
    using (
        select
            staged.*,
            case
                when staged.dbt_change_type = 'insert' and former.version is not null
                    then {{ snapshot_hash_arguments(['staged.' ~ version, 'current_timestamp']) }}
                else staged.{{ version }}
            end as _lake_version
        from {{ source }} as staged
        left join (
            select distinct {{ version }} as version
            from {{ target }}
            where {{ ended }} is not null
        ) as former
            on staged.{{ version }} = former.version
    ) as changed
        on present.{{ version }} = changed._lake_version
    when matched and present.{{ ended }} is null and changed.dbt_change_type in ('update', 'delete')
        then update set {{ ended }} = changed.{{ ended }}
    when not matched and changed.dbt_change_type = 'insert'
        then insert ({{ insert_cols | join(', ') }})
        values ({{ columns | join(', ') }})
{%- endmacro %}
