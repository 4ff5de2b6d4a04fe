{#-
    Fails if the last whole day has far more or far fewer rows than the days before it; one row with both. The days are of
    the rows themselves: the last whole day is the one before the newest. A day without a row counts as one of none.

    Counts of few rows scatter by their square root at least, however even the days before were. Who has fewer days than
    are asked for passes.
-#}
{% test has_usual_volume(model, column_name, days=28, deviations=4) %}

with volumes as (
    select
        cast({{ column_name }} as date) as volume_day,
        count(*) as row_count
    from {{ model }}
    where {{ column_name }} is not null
    group by cast({{ column_name }} as date)
),

bounds as (
    select
        {{ _days_before('max(volume_day)', days + 1) }} as first_day,
        {{ _days_before('max(volume_day)', 1) }} as judged_day
    from volumes
    having min(volume_day) <= {{ _days_before('max(volume_day)', days + 1) }}
),

calendar as (
    {{ _each_day('bounds', 'first_day', 'judged_day') }}
),

volumes_of_days as (
    select
        calendar.calendar_day = calendar.judged_day as is_judged,
        coalesce(volumes.row_count, 0) as row_count
    from calendar
    left join volumes
        on calendar.calendar_day = volumes.volume_day
),

judged as (
    select
        max(case when is_judged then row_count end) as row_count,
        avg(case when not is_judged then row_count end) as usual_row_count,
        stddev_pop(case when not is_judged then row_count end) as deviation
    from volumes_of_days
)

select *
from judged
where abs(row_count - usual_row_count) > {{ deviations }} * greatest(deviation, sqrt(usual_row_count))

{% endtest %}

{% macro _days_before(day, count) -%}
    {{ return(adapter.dispatch('_days_before')(day, count)) }}
{%- endmacro %}

{% macro spark___days_before(day, count) -%}
    date_sub({{ day }}, {{ count }})
{%- endmacro %}

{% macro athena___days_before(day, count) -%}
    date_add('day', -{{ count }}, {{ day }})
{%- endmacro %}

{#- A row per day, `calendar_day`, with the last of them. -#}
{% macro _each_day(relation, first, last) -%}
    {{ return(adapter.dispatch('_each_day')(relation, first, last)) }}
{%- endmacro %}

{% macro spark___each_day(relation, first, last) -%}
    select
        {{ last }},
        explode(sequence({{ first }}, {{ last }})) as calendar_day
    from {{ relation }}
{%- endmacro %}

{% macro athena___each_day(relation, first, last) -%}
    select
        {{ last }},
        calendar_day
    from {{ relation }}
    cross join unnest(sequence({{ first }}, {{ last }})) as days (calendar_day)
{%- endmacro %}
