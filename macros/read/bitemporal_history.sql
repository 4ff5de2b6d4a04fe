{#-
    What was known when: a row says which values held from `valid_from` to `valid_to`, as it was known from `known_from`
    to `known_to`. A change says what holds from its valid time on, until the next valid time that is known; a later
    change of the same valid time corrects it. A delete and a truncate hold from the time they were made.
-#}
{% macro bitemporal_history(changes, key, valid_from, columns=none, except_columns=[]) -%}
    {%- set key = [key] if key is string else key -%}
    {%- set columns = history_columns(changes, key, columns) -%}
    {%- set read = columns if valid_from in columns + key else columns + [valid_from] -%}
    {%- set key_list = '`' ~ key | join('`, `') ~ '`' -%}
    {%- set same_key -%}
        {%- for column in key -%}
            {{ ' and ' if not loop.first }}fact.`{{ column }}` <=> later.`{{ column }}`
        {%- endfor -%}
    {%- endset -%}
    {%- set tracked = columns | reject('in', except_columns) | list -%}
    with _valued as (
        select
            *,
            case when not _is_gone then `{{ valid_from }}` end as _declared,
            struct(_is_gone{% for column in tracked %}, case when not _is_gone then `{{ column }}` end as `{{ column }}`{% endfor %})
                as _tracked
        from ({{ history_values(changes, key, read | reject('in', key) | list) }})
    ),

    _told as (
        select
            *,
            not coalesce(
                _tracked <=> lag(_tracked) over (partition by {{ key_list }}, _valid order by _place), false
            ) as _is_new
        from (select *, coalesce(_declared, _place.at) as _valid from _valued)
    ),

    _facts as (
        select
            *,
            lead(_place) over (partition by {{ key_list }}, _valid order by _place) as _until
        from _told
        where _is_new
    ),

    _ends as (
        select
            {% for column in key %}fact.`{{ column }}`, {% endfor %}fact._place,
            greatest(fact._place, later._place) as _known,
            min(later._valid) as _end
        from _facts as fact
        inner join _facts as later
            on {{ same_key }} and later._valid > fact._valid and (fact._until is null or later._place < fact._until)
        group by {% for column in key %}fact.`{{ column }}`, {% endfor %}fact._place, greatest(fact._place, later._place)
        union all
        select {{ key_list }}, _place, _place as _known, null as _end
        from _facts
    ),

    _nearest as (
        select
            *,
            lag(_known) over _of_fact as _before,
            min(_end) over _of_fact as _nearest_end
        from (
            select {{ key_list }}, _place, _known, min(_end) as _end
            from _ends
            group by {{ key_list }}, _place, _known
        )
        window _of_fact as (
            partition by {{ key_list }}, _place order by _known
        )
    )

    select
        {% for column in key %}later.`{{ column }}`, {% endfor %}
        {%- for column in columns %}
        fact.`{{ column }}`,
        {%- endfor %}
        fact._valid as valid_from,
        later._nearest_end as valid_to,
        later._known.at as known_from,
        coalesce(later._replaced, fact._until).at as known_to,
        later._known.log as position_from,
        coalesce(later._replaced, fact._until).log as position_to,
        coalesce(later._replaced, fact._until) is null as is_current,
        fact.unknown_columns
    from _facts as fact
    inner join (
        select
            *,
            lead(_known) over (partition by {{ key_list }}, _place order by _known) as _replaced
        from (
            select
                *,
                _before is null or not _nearest_end <=> lag(_nearest_end) over (
                    partition by {{ key_list }}, _place order by _known
                ) as _is_new_end
            from _nearest
        )
        where _is_new_end
    ) as later on {{ same_key }} and fact._place = later._place
    where not fact._is_gone
{%- endmacro %}
