{#- Fails if the condition is false or unknown for a row. -#}
{% test is_true_of_every_row(model, condition) %}

select *
from {{ model }}
where not coalesce({{ condition }}, false)

{% endtest %}
