{#- Fails if a value lies outside; both ends belong to the range, and one of them may be left out. Nulls pass. -#}
{% test is_in_range(model, column_name, at_least=none, at_most=none) %}

{%- if at_least is none and at_most is none -%}
    {{ exceptions.raise_compiler_error(
        "is_in_range on " ~ column_name ~ ": got neither at_least nor at_most, expected one or both"
    ) }}
{%- endif %}

select {{ column_name }}
from {{ model }}
where
    false
    {% if at_least is not none -%} or {{ column_name }} < {{ at_least }} {%- endif %}
    {% if at_most is not none -%} or {{ column_name }} > {{ at_most }} {%- endif %}

{% endtest %}
