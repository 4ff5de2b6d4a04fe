{#-
    The current versions of a snapshot's table are known by `dbt_valid_to`: null, or `dbt_valid_to_current`. Where that setting has
    become another one, or none, dbt takes them for versions that have ended, and begins each key once more. An end in the future at
    which no version begins is such a mark.
-#}
{% macro snapshot_require_ends(existing) -%}
    {%- set names = config.get('snapshot_table_column_names') or get_snapshot_table_column_names() -%}
    {%- set began, ended = adapter.quote(names.dbt_valid_from), adapter.quote(names.dbt_valid_to) -%}
    {%- set current = config.get('dbt_valid_to_current') -%}
    {%- set marked -%}
        select {{ ended }} as mark, count(*) as row_count
        from {{ existing }}
        where
            {{ ended }} > current_timestamp()
            {%- if current %}
            and not {{ ended }} <=> {{ current }}
            {%- endif %}
            and {{ ended }} not in (select {{ began }} from {{ existing }} where {{ began }} is not null)
        group by {{ ended }}
        limit 1
    {%- endset -%}
    {%- for row in run_query(marked) -%}
        {{ exceptions.raise_compiler_error(
            model.unique_id ~ ': got dbt_valid_to_current = ' ~ (current or 'none') ~ ', and ' ~ row['row_count'] ~ ' versions of '
            ~ names.dbt_valid_to ~ ' = ' ~ row['mark'] ~ ', expected that time, by which they are the current ones: each key would have two; '
            ~ 'set it, or update these versions first; nothing was written'
        ) }}
    {%- endfor -%}
{%- endmacro %}
