{#- The date that a text has, written yyyy-MM-dd: null of any other text. -#}
{% macro date_of_text(column) -%}
    {{ return(adapter.dispatch('date_of_text')(column)) }}
{%- endmacro %}

{% macro spark__date_of_text(column) -%}
    cast(try_to_timestamp({{ column }}, 'yyyy-MM-dd') as date)
{%- endmacro %}

{% macro athena__date_of_text(column) -%}
    case when regexp_like({{ column }}, '^\d{4}-\d{2}-\d{2}$') then try(cast({{ column }} as date)) end
{%- endmacro %}
