{#- A row is hidden only where the source says that it is gone: a null is not a delete. -#}
{% macro is_live() -%}
    coalesce(__deleted, 'false') <> 'true'
{%- endmacro %}
