{#-
    Fails if a value has no row in the other relation. A null refers to nothing and passes; a null among the other
    relation's values hides no orphan, as it would with `not in`.
-#}
{% test has_no_orphans(model, column_name, to, field) %}

with children as (
    select {{ column_name }} as child_value
    from {{ model }}
    where {{ column_name }} is not null
),

parents as (
    select {{ field }} as parent_value
    from {{ to }}
    where {{ field }} is not null
)

select child_value
from children
where not exists (
    select 1
    from parents
    where parents.parent_value = children.child_value
)

{% endtest %}
