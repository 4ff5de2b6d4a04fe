{#-
    What was known when: a row says which values held from `valid_from` to `valid_to`, as it was known from `known_from`
    to `known_to`. A change says what holds from its valid time on, until the next valid time that is known; a later
    change of the same valid time corrects it. A delete and a truncate hold from the time they were made.
-#}
{% macro bitemporal_history(changes, key, valid_from, columns=none, except_columns=[]) -%}
    {%- set key = [key] if key is string else key -%}
    {%- set columns = history_columns(changes, key, columns) -%}
    {%- set read = columns if valid_from in columns + key else columns + [valid_from] -%}
    {%- set of_fact, later_of_fact = [], [] -%}
    {%- for column in key -%}
        {%- do of_fact.append('fact.' ~ adapter.quote(column)) -%}
        {%- do later_of_fact.append('later.' ~ adapter.quote(column)) -%}
    {%- endfor -%}
    {%- set of_time = 'over (partition by ' ~ hudi_quoted(key) ~ ', _valid order by _rank)' -%}
    {%- set of_rank = 'over (partition by ' ~ hudi_quoted(key) ~ ', _rank order by _known)' -%}
    with _valued as (
        select
            *,
            case when not _is_gone then {{ adapter.quote(valid_from) }} end as _declared,
            {{ history_tracked(columns | reject('in', except_columns)) }} as _tracked
        from ({{ history_values(changes, key, read | reject('in', key) | list) }}) as _values
    ),

    _told as (
        select
            *,
            lag(_rank) {{ of_time }} is null or _tracked is distinct from lag(_tracked) {{ of_time }} as _is_new
        from (select *, coalesce(_declared, _at) as _valid from _valued) as _timed
    ),

    _facts as (
        select
            *,
            lead(_rank) {{ of_time }} as _until
        from _told
        where _is_new
    ),

    _ends as (
        select
            {{ of_fact | join(', ') }},
            fact._rank,
            greatest(fact._rank, later._rank) as _known,
            min(later._valid) as _end
        from _facts as fact
        inner join _facts as later
            on {{ hudi_equal('fact', 'later', key, 'is not distinct from') }} and later._valid > fact._valid
                and (fact._until is null or later._rank < fact._until)
        group by {{ of_fact | join(', ') }}, fact._rank, greatest(fact._rank, later._rank)
        union all
        select {{ hudi_quoted(key) }}, _rank, _rank as _known, null as _end
        from _facts
    ),

    _nearest as (
        select
            *,
            lag(_known) {{ of_rank }} as _before,
            min(_end) {{ of_rank }} as _nearest_end
        from (
            select {{ hudi_quoted(key) }}, _rank, _known, min(_end) as _end
            from _ends
            group by {{ hudi_quoted(key) }}, _rank, _known
        ) as _least
    ),

    _later as (
        select
            *,
            lead(_known) {{ of_rank }} as _replaced
        from (
            select
                *,
                _before is null or _nearest_end is distinct from lag(_nearest_end) {{ of_rank }} as _is_new_end
            from _nearest
        ) as _marked
        where _is_new_end
    )

    select
        {{ later_of_fact | join(', ') }},
        {%- for column in columns %}
        fact.{{ adapter.quote(column) }},
        {%- endfor %}
        fact._valid as valid_from,
        later._nearest_end as valid_to,
        known._at as known_from,
        ended._at as known_to,
        known._log as position_from,
        ended._log as position_to,
        coalesce(later._replaced, fact._until) is null as is_current,
        fact.unknown_columns
    from _facts as fact
    inner join _later as later
        on {{ hudi_equal('fact', 'later', key, 'is not distinct from') }} and fact._rank = later._rank
    inner join _valued as known
        on {{ hudi_equal('known', 'later', key, 'is not distinct from') }} and known._rank = later._known
    left join _valued as ended
        on {{ hudi_equal('ended', 'later', key, 'is not distinct from') }} and ended._rank = coalesce(later._replaced, fact._until)
    where not fact._is_gone
{%- endmacro %}
