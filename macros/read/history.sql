{#-
    Slowly changing dimension of type 2 from a table of changes. A row is a version: the changes of a key that follow on
    each other with equal values. Columns that do not count show the version's last value.
-#}
{% macro history(changes, key, columns=none, except_columns=[]) -%}
    {%- set key = [key] if key is string else key -%}
    {%- set columns = history_columns(changes, key, columns) -%}
    {%- set of_key = 'over (partition by ' ~ hudi_quoted(key) ~ ' order by _rank)' -%}
    {%- set of_version = 'over (partition by ' ~ hudi_quoted(key) ~ ', _version order by _rank)' -%}
    select
        {{ hudi_quoted(key) }},
        {%- for column in columns %}
        {{ adapter.quote(column) }},
        {%- endfor %}
        _first_at as valid_from,
        _next_at as valid_to,
        _first_log as position_from,
        _next_log as position_to,
        _next_version is null as is_current,
        unknown_columns
    from (
        select
            *,
            first_value(_at) {{ of_version }} as _first_at,
            first_value(_log) {{ of_version }} as _first_log,
            lead(_at) {{ of_key }} as _next_at,
            lead(_log) {{ of_key }} as _next_log,
            lead(_version) {{ of_key }} as _next_version
        from (
            select
                *,
                count(case when _is_new then 1 end) over (
                    partition by {{ hudi_quoted(key) }} order by _rank
                    rows between unbounded preceding and current row
                ) as _version
            from (
                select
                    *,
                    lag(_rank) {{ of_key }} is null or _tracked is distinct from lag(_tracked) {{ of_key }} as _is_new
                from (
                    select
                        *,
                        {{ history_tracked(columns | reject('in', except_columns)) }} as _tracked
                    from ({{ history_values(changes, key, columns) }}) as _values
                ) as _compared
            ) as _told
        ) as _numbered
    ) as _versions
    where (_next_version is null or _next_version > _version) and not _is_gone
{%- endmacro %}
