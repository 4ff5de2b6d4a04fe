{#-
    A quotient as a decimal, rounded half up to the digits of its type; null where nothing is divided by. It is one of decimals with
    twelve digits behind the point, of which rounding needs one more than it keeps: Spark divides whole numbers as fractions of two,
    which no half of a cent is, Athena as whole numbers, and decimals by the digits that they have. What it is multiplied by comes
    first, while there are digits to spare.
-#}
{% macro quotient(numerator, denominator, type, times=none) -%}
    {%- set scale = modules.re.match('decimal\\(\\d+, *(\\d+)\\)$', type) -%}
    {%- if not scale -%}
        {{ exceptions.raise_compiler_error("quotient: got the type '" ~ type ~ "', expected a decimal with its digits, such as decimal(10, 2)") }}
    {%- endif -%}
    {%- set divided = 'cast(' ~ numerator ~ ' as decimal(38, 12))' -%}
    {%- if times is not none -%}
        {%- set divided = 'cast(' ~ divided ~ ' * ' ~ times ~ ' as decimal(38, 12))' -%}
    {%- endif -%}
    cast(round({{ divided }} / nullif({{ denominator }}, 0), {{ scale.group(1) }}) as {{ type }})
{%- endmacro %}
