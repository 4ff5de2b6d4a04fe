{#-
    Fails if a value has no row in the other relation. A null refers to nothing and passes; a null among the other
    relation's values hides no orphan, as it would with `not in`. Nor does a tombstone, see `live_parents`.
-#}
{% test has_no_orphans(model, column_name, to, field) %}

with children as (
    select {{ column_name }} as child_value
    from {{ model }}
    where {{ column_name }} is not null
),

parents as (
    select {{ field }} as parent_value
    from {{ live_parents(to) }}
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

{#- dbt's own, of the same parents. -#}
{% macro spark__test_relationships(model, column_name, to, field) -%}
    {%- do return(dbt.default__test_relationships(model, column_name, live_parents(to), field)) -%}
{%- endmacro %}

{% macro athena__test_relationships(model, column_name, to, field) -%}
    {%- do return(spark__test_relationships(model, column_name, to, field)) -%}
{%- endmacro %}
