{#-
    A quotient as a decimal, rounded half up to the digits of its type; null where nothing is divided by. Spark divides whole numbers
    as fractions and decimals with digits to spare; Athena divides whole numbers as whole numbers, and decimals by the digits that
    they have.
-#}
{% macro quotient(numerator, denominator, type, times=none) -%}
    {%- set scale = modules.re.match('decimal\\(\\d+, *(\\d+)\\)$', type) -%}
    {%- if not scale -%}
        {{ exceptions.raise_compiler_error("quotient: got the type '" ~ type ~ "', expected a decimal with its digits, such as decimal(10, 2)") }}
    {%- endif -%}
    {%- set divided = adapter.dispatch('_divided')(numerator, 'nullif(' ~ denominator ~ ', 0)') -%}
    cast(round({{ divided }}{{ ' * ' ~ times if times is not none }}, {{ scale.group(1) }}) as {{ type }})
{%- endmacro %}

{% macro spark___divided(numerator, denominator) -%}
    {{ numerator }} / {{ denominator }}
{%- endmacro %}

{#- Twelve digits behind the point, of which rounding needs one more than it keeps. -#}
{% macro athena___divided(numerator, denominator) -%}
    cast({{ numerator }} as decimal(38, 12)) / {{ denominator }}
{%- endmacro %}
