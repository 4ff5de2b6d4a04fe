{#- Of the rows that a snapshot is taken of each has a key, whole, and no two the same one: asked before anything is written. -#}
{% macro snapshot_require_keys(sql) -%}
    {%- set unique_key = config.get('unique_key') -%}
    {%- set expressions = [unique_key] if unique_key is string else unique_key -%}
    {%- set parts, missing = [], [] -%}
    {%- for expression in expressions -%}
        {%- do parts.append('part_' ~ loop.index) -%}
        {%- do missing.append('part_' ~ loop.index ~ ' is null') -%}
    {%- endfor -%}
    {%- set counted -%}
        select
            coalesce(sum(if({{ missing | join(' or ') }}, row_count, 0)), 0) as null_count,
            count_if(row_count > 1 and not ({{ missing | join(' or ') }})) as repeated_count
        from (
            select {{ parts | join(', ') }}, count(*) as row_count
            from (
                select
                {%- for expression in expressions %}
                    {{ expression }} as {{ parts[loop.index0] }}{{ ',' if not loop.last }}
                {%- endfor %}
                from (
                    {{ sql }}
                )
            )
            group by {{ parts | join(', ') }}
        )
    {%- endset -%}
    {%- set found = run_query(counted)[0] -%}
    {%- if found['null_count'] or found['repeated_count'] -%}
        {{ exceptions.raise_compiler_error(
            model.unique_id ~ ': got ' ~ found['null_count'] ~ ' rows with a null in unique_key (' ~ expressions | join(', ') ~ ') and '
            ~ found['repeated_count'] ~ ' keys with more than one row, expected one row for each key; nothing was written'
        ) }}
    {%- endif -%}
{%- endmacro %}
