{#-
    Slowly changing dimension of type 2 from a table of changes. A row is a version: the changes of a key that follow on
    each other with equal values. Columns that do not count show the version's last value.
-#}
{% macro history(changes, key, columns=none, except_columns=[]) -%}
    {%- set key = [key] if key is string else key -%}
    {%- set columns = history_columns(changes, key, columns) -%}
    {%- set key_list = '`' ~ key | join('`, `') ~ '`' -%}
    {%- set tracked = columns | reject('in', except_columns) | list -%}
    select
        {{ key_list }},
        {%- for column in columns %}
        _last.`{{ column }}`,
        {%- endfor %}
        _first.at as valid_from,
        _next.at as valid_to,
        _first.log as position_from,
        _next.log as position_to,
        _next is null as is_current,
        _last.unknown_columns
    from (
        select
            *,
            lead(_first) over (partition by {{ key_list }} order by _first) as _next
        from (
            select
                {{ key_list }},
                min(_place) as _first,
                max_by(
                    struct({% for column in columns %}`{{ column }}`, {% endfor %}unknown_columns, _is_gone), _place
                ) as _last
            from (
                select
                    *,
                    count_if(_is_new) over (
                        partition by {{ key_list }} order by _place
                        rows between unbounded preceding and current row
                    ) as _version
                from (
                    select
                        *,
                        not coalesce(_tracked <=> lag(_tracked) over (partition by {{ key_list }} order by _place), false)
                            as _is_new
                    from (
                        select
                            *,
                            struct(_is_gone{% for column in tracked %}, case when not _is_gone then `{{ column }}` end as `{{ column }}`{% endfor %})
                                as _tracked
                        from ({{ history_values(changes, key, columns) }})
                    )
                )
            )
            group by {{ key_list }}, _version
        )
    )
    where not _last._is_gone
{%- endmacro %}
