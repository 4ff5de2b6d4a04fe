{#-
    The changes of each key in the order of the log, `_rank` from 1: by the log, within it rows that a snapshot read there come last,
    and the delivery tells two of these apart. A truncate is one change of the source and ends every row: here it becomes a change
    of each key that was there before. A value that an event does not hold is that of the key's last change before it, as long as
    that is of the same row: behind a delete, a truncate, or with a create, another row has the key.
-#}
{% macro history_values(changes, key, columns) -%}
    {%- set key_list = hudi_quoted(key) -%}
    {%- set place -%}
        {{ _log_of('__position') }} as _log,
        coalesce(__op = 'r', false) as _is_read,
        __position as _delivered,
        {{ timestamp_of_epoch('__source_ts_ms', 'millisecond') }} as _at
    {%- endset -%}
    {%- set ordered -%}
        over (partition by {{ key_list }} order by _log nulls first, _is_read, _delivered nulls first, _at nulls first
    {%- endset -%}
    select
        {{ key_list }},
        {%- for column in columns %}
        {{ _held_value(adapter.quote('_held_' ~ column)) }} as {{ adapter.quote(column) }},
        {%- endfor %}
        _op,
        _rank,
        _log,
        _delivered,
        _at,
        _is_gone,
        {{ _names_where(columns) }} as unknown_columns
    from (
        select
            {{ key_list }},
            {%- for column in columns %}
            last_value(
                case when not coalesce({{ _has_element('_unavailable', column) }}, false) then {{ _held(adapter.quote(column)) }} end
            ) ignore nulls over (
                partition by {{ key_list }}, _row order by _rank rows between unbounded preceding and current row
            ) as {{ adapter.quote('_held_' ~ column) }},
            {%- endfor %}
            count(case when _op is distinct from 't' then 1 end) over (
                partition by {{ key_list }} order by _rank rows between unbounded preceding and current row
            ) as _known,
            _op,
            _rank,
            _log,
            _delivered,
            _at,
            _is_gone
        from (
            select
                *,
                row_number() {{ ordered }}) as _rank,
                count(case when _op = 'c' then 1 end) {{ ordered }} rows between unbounded preceding and current row)
                + count(case when _is_gone then 1 end) {{ ordered }} rows between unbounded preceding and 1 preceding) as _row
            from (
                select
                    {{ key_list }},
                    {%- for column in columns %}
                    {{ adapter.quote(column) }},
                    {%- endfor %}
                    __op as _op,
                    __unavailable as _unavailable,
                    coalesce(__deleted, 'false') = 'true' as _is_gone,
                    {{ place }}
                from {{ changes }}
                where __op is distinct from 't'
                union all
                select
                    {{ key_list }},
                    {%- for column in columns %}
                    null as {{ adapter.quote(column) }},
                    {%- endfor %}
                    't' as _op,
                    null as _unavailable,
                    true as _is_gone,
                    _log,
                    _is_read,
                    _delivered,
                    _at
                from (
                    select distinct {{ key_list }}
                    from {{ changes }}
                    where __op is distinct from 't'
                ) as _keys
                cross join (
                    select {{ place }}
                    from {{ changes }}
                    where __op = 't'
                ) as _truncates
            ) as _told
        ) as _ranked
    ) as _valued
    where _known > 0
{%- endmacro %}

{#- A value that is known, be it null: a null is one that is not. -#}
{% macro _held(value) -%}
    {{ return(adapter.dispatch('_held')(value)) }}
{%- endmacro %}

{% macro spark___held(value) -%}
    struct({{ value }} as held)
{%- endmacro %}

{% macro athena___held(value) -%}
    row({{ value }})
{%- endmacro %}

{% macro _held_value(held) -%}
    {{ return(adapter.dispatch('_held_value')(held)) }}
{%- endmacro %}

{% macro spark___held_value(held) -%}
    {{ held }}.held
{%- endmacro %}

{% macro athena___held_value(held) -%}
    {{ held }}[1]
{%- endmacro %}

{% macro _has_element(array, text) -%}
    {{ return(adapter.dispatch('_has_element')(array, text)) }}
{%- endmacro %}

{% macro spark___has_element(array, text) -%}
    array_contains({{ array }}, '{{ text }}')
{%- endmacro %}

{% macro athena___has_element(array, text) -%}
    contains({{ array }}, '{{ text }}')
{%- endmacro %}

{#- The columns of which no change so far has a value. -#}
{% macro _names_where(columns) -%}
    {%- set names = [] -%}
    {%- for column in columns -%}
        {%- do names.append('case when ' ~ adapter.quote('_held_' ~ column) ~ " is null then '" ~ column ~ "' end") -%}
    {%- endfor -%}
    filter({{ adapter.dispatch('_array_of_text')(names) }}, _name -> _name is not null)
{%- endmacro %}

{% macro spark___array_of_text(expressions) -%}
    array({{ expressions | join(', ') }})
{%- endmacro %}

{% macro athena___array_of_text(expressions) -%}
    cast(array[{{ expressions | join(', ') }}] as array(varchar))
{%- endmacro %}

{% macro _log_of(position) -%}
    {{ return(adapter.dispatch('_log_of')(position)) }}
{%- endmacro %}

{% macro spark___log_of(position) -%}
    substring_index({{ position }}, '/', 1)
{%- endmacro %}

{% macro athena___log_of(position) -%}
    split_part({{ position }}, '/', 1)
{%- endmacro %}
