{#-
    A truncate is one change of the source and ends every row: here it becomes a change of each key that was there
    before. A value that an event does not hold is that of the key's last change before it.
-#}
{% macro history_values(changes, key, columns) -%}
    {{ return(adapter.dispatch('history_values')(changes, key, columns)) }}
{%- endmacro %}

{% macro default__history_values(changes, key, columns) -%}
    {%- do refuse_engine(
        'history_values', 'places in the log are compared as structs with nulls; a table that Spark builds of its rows can be read'
    ) -%}
    select * from {{ changes }}
{%- endmacro %}

{% macro spark__history_values(changes, key, columns) -%}
    {%- set key_list = '`' ~ key | join('`, `') ~ '`' -%}
    {#- By the log, and within it rows that a snapshot read there come last; the delivery tells two of these apart -#}
    {%- set place -%}
        named_struct(
            'log', substring_index(__position, '/', 1),
            'is_read', coalesce(__op = 'r', false),
            'delivered', __position,
            'at', timestamp_millis(__source_ts_ms)
        )
    {%- endset -%}
    select
        {%- for column in key %}
        `{{ column }}`,
        {%- endfor %}
        {%- for column in columns %}
        `_held_{{ column }}`.held as `{{ column }}`,
        {%- endfor %}
        _op,
        _place,
        _is_gone,
        filter(
            array(
                {%- for column in columns %}
                case when `_held_{{ column }}` is null then '{{ column }}' end{{ ',' if not loop.last }}
                {%- endfor %}
            ),
            name -> name is not null
        ) as unknown_columns
    from (
        select
            {%- for column in key %}
            `{{ column }}`,
            {%- endfor %}
            _op,
            {%- for column in columns %}
            last_value(
                case when not coalesce(array_contains(_unavailable, '{{ column }}'), false) then struct(`{{ column }}` as held) end,
                true
            ) over (
                partition by {{ key_list }} order by _place rows between unbounded preceding and current row
            ) as `_held_{{ column }}`,
            {%- endfor %}
            _place,
            _is_gone
        from (
            select
                {{ key_list }},
                {%- for column in columns %}
                `{{ column }}`,
                {%- endfor %}
                __op as _op,
                __unavailable as _unavailable,
                coalesce(__deleted, 'false') = 'true' as _is_gone,
                {{ place }} as _place
            from {{ changes }}
            where not __op <=> 't'
            union all
            select
                {%- for column in key %}
                known.`{{ column }}`,
                {%- endfor %}
                {%- for column in columns %}
                null as `{{ column }}`,
                {%- endfor %}
                't' as _op,
                null as _unavailable,
                true as _is_gone,
                emptied._place
            from (
                select
                    {{ key_list }},
                    min({{ place }}) as _first
                from {{ changes }}
                where not __op <=> 't'
                group by {{ key_list }}
            ) as known
            inner join (
                select {{ place }} as _place
                from {{ changes }}
                where __op = 't'
            ) as emptied on known._first < emptied._place
        )
    )
{%- endmacro %}
