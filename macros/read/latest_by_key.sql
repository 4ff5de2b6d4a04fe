{#-
    One row of each key: the one with the greatest values of `order_by`, compared column by column. In keys a null is a
    value like another, in `order_by` it is less than any value. Nothing here joins, so no row is lost for its nulls.
-#}
{% macro latest_by_key(relation, key, order_by, columns=none) -%}
    {%- set key = [key] if key is string else key -%}
    {%- if not key or key is mapping -%}
        {{ exceptions.raise_compiler_error(relation ~ ": got key = " ~ key ~ ", expected a column or a list of columns") }}
    {%- endif -%}
    {%- set ordered = order_by is sequence and order_by is not string and order_by is not mapping and order_by -%}
    {%- if not ordered or (order_by | last) | lower in key | map('lower') | list -%}
        {{ exceptions.raise_compiler_error(
            relation ~ ": got order_by = " ~ order_by ~ ", expected a list of columns whose last one breaks ties: "
            ~ "no two rows of a key share its value"
        ) }}
    {%- endif -%}
    {{ return(adapter.dispatch('latest_by_key')(relation, key, order_by, columns)) }}
{%- endmacro %}

{#- Spark compares the fields of a struct in order, nulls first; a struct also keeps the columns without their names here. -#}
{% macro spark__latest_by_key(relation, key, order_by, columns) -%}
    select _latest.*
    from (
        select
            max_by(
                struct({{ '*' if columns is none else hudi_quoted(columns) }}), struct({{ hudi_quoted(order_by) }})
            ) as _latest
        from {{ relation }}
        group by {{ hudi_quoted(key) }}
    )
{%- endmacro %}

{#- Athena has neither `qualify` nor `* except`: what is shown besides the rank must be named. -#}
{% macro athena__latest_by_key(relation, key, order_by, columns) -%}
    {%- if columns is none and execute -%}
        {%- if relation is string -%}
            {{ exceptions.raise_compiler_error(
                relation ~ ": got columns = none, expected the list of columns to show: only of a relation the catalog knows them"
            ) }}
        {%- endif -%}
        {%- set columns = adapter.get_columns_in_relation(relation) | map(attribute='name') | list -%}
    {%- endif -%}
    select {{ hudi_quoted(columns or []) }}
    from (
        select
            *,
            row_number() over (
                partition by {{ hudi_quoted(key) }}
                order by {% for column in order_by %}{{ adapter.quote(column) }} desc nulls last{{ ', ' if not loop.last }}{% endfor %}
            ) as _latest_rank
        from {{ relation }}
    )
    where _latest_rank = 1
{%- endmacro %}
