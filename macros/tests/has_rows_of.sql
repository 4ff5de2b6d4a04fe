{#- Fails if the numbers of rows differ; one row with both. -#}
{% test has_rows_of(model, other) %}

with counts as (
    select
        (select count(*) from {{ model }}) as row_count,
        (select count(*) from {{ other }}) as other_row_count
)

select *
from counts
where row_count <> other_row_count

{% endtest %}
