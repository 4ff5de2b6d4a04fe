{#-
    A table of another format makes room for the model's Iceberg table, and dbt-athena deletes its files. One that lies elsewhere than
    where dbt writes tables is somebody else's.
-#}
{% macro athena_require_own(existing) -%}
    {%- if existing is not none and not existing.is_view and resolve_table_type() == 'iceberg' and not athena_is_iceberg(existing) -%}
        {%- set place, own = adapter.get_glue_table_location(existing), config.get('s3_data_dir') or target.s3_data_dir -%}
        {%- if place and not place.startswith(own.rstrip('/') ~ '/') -%}
            {{ exceptions.raise_compiler_error(
                model.unique_id ~ ": there is a table of that name already, which is at " ~ place ~ ", expected none, or one below " ~ own
                ~ ", where dbt writes tables: its files would be deleted; remove it from Glue, or give the model another alias or schema"
            ) }}
        {%- endif -%}
    {%- endif -%}
{%- endmacro %}
