{#- The record key of the model's table: of a snapshot the version, for it has many rows of one unique_key. -#}
{% macro hudi_record_key() -%}
    {%- set unique_key = config.get('unique_key') -%}
    {%- if model.resource_type == 'snapshot' -%}
        {%- set unique_key = (config.get('snapshot_table_column_names') or get_snapshot_table_column_names()).dbt_scd_id -%}
    {%- endif -%}
    {%- do return(key_columns(unique_key, model.unique_id)) -%}
{%- endmacro %}
