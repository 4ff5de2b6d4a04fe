{#-
    A row is a change of a key, with the key's values before it and after it. A truncate is a change of each key that it
    ended. Values that an event does not hold are those of the key's last change before it.
-#}
{% macro change_rows(changes, key, columns=none) -%}
    {%- set key = [key] if key is string else key -%}
    {%- set added = ['unknown_columns'] + (['op', 'changed_at', 'position'] | select('in', key) | list) -%}
    {%- set columns = history_columns(changes, key, columns, added) -%}
    {%- set key_list = '`' ~ key | join('`, `') ~ '`' -%}
    select
        {{ key_list }},
        _op as op,
        _place.at as changed_at,
        _place.delivered as position,
        {%- for side in ('before', 'after') %}
        {%- for column in columns %}
        _{{ side }}.`{{ column }}` as `{{ side }}_{{ column }}`,
        {%- endfor %}
        _{{ side }}.unknown_columns as {{ side }}_unknown_columns{{ ',' if not loop.last }}
        {%- endfor %}
    from (
        select
            *,
            lag(_after) over (partition by {{ key_list }} order by _place) as _before
        from (
            select
                {{ key_list }},
                _op,
                _place,
                case when not _is_gone then struct({% for column in columns %}`{{ column }}`, {% endfor %}unknown_columns) end
                    as _after
            from ({{ history_values(changes, key, columns) }})
        )
    )
    where not (_op <=> 't' and _before is null)
{%- endmacro %}
