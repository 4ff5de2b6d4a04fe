{#- Fails if a text is null, empty or only spaces. -#}
{% test is_not_blank(model, column_name) %}

select {{ column_name }}
from {{ model }}
where trim(coalesce({{ column_name }}, '')) = ''

{% endtest %}
