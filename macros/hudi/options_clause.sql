{#-
    In place of dbt-spark's: it compares unique_key with primaryKey as they stand, so that a composite key never
    equals its own option, and it prints a list as a list.
-#}
{% macro spark__options_clause() -%}
    {%- set options = config.get('options') -%}
    {%- if config.get('file_format') == 'hudi' -%}
        {%- set merged_partitions = config.get('partition_by') if config.get('materialized') == 'incremental' -%}
        {%- set options = hudi_table_options(options, config.get('unique_key'), model.unique_id, merged_partitions) -%}
    {%- endif -%}
    {%- if options -%}
    options (
        {%- for name, value in options.items() %}
        '{{ name }}' = '{{ value }}'{{ ',' if not loop.last }}
        {%- endfor %}
    )
    {%- endif -%}
{%- endmacro %}
