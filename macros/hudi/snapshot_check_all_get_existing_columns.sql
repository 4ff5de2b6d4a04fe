{#-
    In place of dbt's, which takes a column of the select that the snapshot's table has not got for one that was added, and each row for one
    that has changed. Hudi's own columns, which `select *` of a Hudi table gives, are no columns of a table to dbt-spark.
-#}
{% macro snapshot_check_all_get_existing_columns(node, target_exists, check_cols_config) -%}
    {%- set columns = [] -%}
    {%- if target_exists and check_cols_config == 'all' and config.get('file_format') == 'hudi' -%}
        {%- for name in get_columns_in_query(node['compiled_code']) if not name.startswith('_hoodie_') -%}
            {%- do columns.append(adapter.quote(name)) -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return(dbt.snapshot_check_all_get_existing_columns(node, target_exists, columns or check_cols_config)) }}
{%- endmacro %}
