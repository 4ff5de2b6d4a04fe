{#-
    Fails if the newest time of a column is older than the newest time elsewhere by more than some hours; one row with
    both. Compared with its source and not with the clock, a table of old rows is fresh where it has all that there is.
-#}
{% test is_as_fresh_as(model, column_name, other, other_column, within_hours=0) %}

with newest as (
    select
        (select cast(max({{ column_name }}) as timestamp) from {{ model }}) as newest_at,
        (select cast(max({{ other_column }}) as timestamp) from {{ other }}) as other_newest_at
)

select *
from newest
where
    newest_at < other_newest_at - interval '{{ within_hours }}' hour
    or (newest_at is null and other_newest_at is not null)

{% endtest %}
