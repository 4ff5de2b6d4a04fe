{% macro live_rows(relation) -%}
    select *
    from {{ relation }}
    where {{ is_live() }}
{%- endmacro %}
