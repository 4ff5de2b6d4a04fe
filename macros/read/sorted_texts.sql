{#- An aggregate: the texts of a group as an array in their order, without nulls; an empty one where there are no others. -#}
{% macro sorted_texts(column) -%}
    {{ return(adapter.dispatch('sorted_texts')(column)) }}
{%- endmacro %}

{% macro spark__sorted_texts(column) -%}
    array_sort(collect_list({{ column }}))
{%- endmacro %}

{% macro athena__sorted_texts(column) -%}
    coalesce(array_sort(array_agg({{ column }}) filter (where {{ column }} is not null)), {{ no_texts() }})
{%- endmacro %}

{#- An array of texts that has none. -#}
{% macro no_texts() -%}
    {{ return(adapter.dispatch('no_texts')()) }}
{%- endmacro %}

{% macro spark__no_texts() -%}
    cast(array() as array<string>)
{%- endmacro %}

{% macro athena__no_texts() -%}
    cast(array[] as array(varchar))
{%- endmacro %}
