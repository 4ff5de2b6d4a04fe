{#- A timestamp from a whole number of seconds, or of milliseconds, since 1970 in UTC. -#}
{% macro timestamp_of_epoch(column, unit) -%}
    {%- if unit not in ['second', 'millisecond'] -%}
        {{ exceptions.raise_compiler_error("timestamp_of_epoch: got the unit '" ~ unit ~ "', expected second or millisecond") }}
    {%- endif -%}
    {{ return(adapter.dispatch('timestamp_of_epoch')(column, unit)) }}
{%- endmacro %}

{% macro spark__timestamp_of_epoch(column, unit) -%}
    {{ 'timestamp_seconds' if unit == 'second' else 'timestamp_millis' }}({{ column }})
{%- endmacro %}

{% macro athena__timestamp_of_epoch(column, unit) -%}
    (timestamp '1970-01-01 00:00:00.000000' + {{ column }} * interval '{{ '1' if unit == 'second' else '0.001' }}' second)
{%- endmacro %}
