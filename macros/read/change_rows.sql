{#-
    A row is a change of a key, with the key's values before it and after it. A truncate is a change of each key that it
    ended. Values that an event does not hold are those of the key's last change before it.
-#}
{% macro change_rows(changes, key, columns=none) -%}
    {%- set key = [key] if key is string else key -%}
    {%- set added = ['unknown_columns'] + (['op', 'changed_at', 'position'] | select('in', key) | list) -%}
    {%- set columns = history_columns(changes, key, columns, added) -%}
    {%- set of_key = 'over (partition by ' ~ hudi_quoted(key) ~ ' order by _rank)' -%}
    {%- set shown = columns + ['unknown_columns'] -%}
    select
        {{ hudi_quoted(key) }},
        _op as op,
        _at as changed_at,
        _delivered as position,
        {%- for side in ('before', 'after') %}
        {%- set of_side = loop.last -%}
        {%- for column in shown %}
        {{ adapter.quote(side ~ '_' ~ column) }}{{ ',' if not (of_side and loop.last) }}
        {%- endfor %}
        {%- endfor %}
    from (
        select
            {{ hudi_quoted(key) }},
            _op,
            _at,
            _delivered,
            {%- for column in shown %}
            {%- set value = 'case when not _is_gone then ' ~ adapter.quote(column) ~ ' end' %}
            lag({{ value }}) {{ of_key }} as {{ adapter.quote('before_' ~ column) }},
            {{ value }} as {{ adapter.quote('after_' ~ column) }},
            {%- endfor %}
            coalesce(lag(not _is_gone) {{ of_key }}, false) as _was_there
        from ({{ history_values(changes, key, columns) }}) as _values
    ) as _changes
    where _was_there or _op is distinct from 't'
{%- endmacro %}
