{#- Fails if the column's sum is not that of a column elsewhere; a sum of nothing is 0. -#}
{% test has_sum_of(model, column_name, other, other_column) %}

with sums as (
    select
        (select coalesce(sum({{ column_name }}), 0) from {{ model }}) as column_sum,
        (select coalesce(sum({{ other_column }}), 0) from {{ other }}) as other_sum
)

select *
from sums
where column_sum <> other_sum

{% endtest %}
