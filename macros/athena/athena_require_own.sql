{#-
    A table makes room for the model's view, and one of another format for its Iceberg table: dbt-athena deletes its files, or writes
    among them. One that lies elsewhere than where dbt writes tables is somebody else's.
-#}
{% macro athena_require_own(existing) -%}
    {%- set goes_on = model.config.materialized != 'view' and resolve_table_type() == 'iceberg' -%}
    {%- if existing is not none and not existing.is_view and not (goes_on and athena_is_iceberg(existing)) -%}
        {%- set place = adapter.get_glue_table_location(existing) -%}
        {%- set own = config.get('external_location') or config.get('s3_data_dir') or target.s3_data_dir -%}
        {%- if place and not (place.rstrip('/') ~ '/').startswith(own.rstrip('/') ~ '/') -%}
            {{ exceptions.raise_compiler_error(
                model.unique_id ~ ": there is a table of that name already, which is at " ~ place ~ ", expected none, or one below " ~ own
                ~ ", where dbt writes tables: its files would be deleted, or others put among them; remove it from Glue, or give the model "
                ~ "another alias or schema"
            ) }}
        {%- endif -%}
    {%- endif -%}
{%- endmacro %}
