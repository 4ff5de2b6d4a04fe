{#-
    What stands under a model's name. A rebuild that was broken off between its two renames has left the name free and
    the old table beside it: it comes back first. One that was broken off before has left a table that is no use.
-#}
{% macro hudi_present(relation) -%}
    {%- set existing = load_relation(relation) -%}
    {%- set set_aside = hudi_beside(relation, 'before') -%}
    {%- if existing is none and load_relation(set_aside) is not none -%}
        {%- do log(relation ~ ': a rebuild was broken off, the table it was to replace is put back', info=true) -%}
        {%- do adapter.rename_relation(set_aside, relation.incorporate(type='table')) -%}
        {%- set existing = load_relation(relation) -%}
    {%- endif -%}
    {%- if load_relation(hudi_beside(relation, 'built')) is not none -%}
        {%- do hudi_drop(hudi_beside(relation, 'built')) -%}
    {%- endif -%}
    {%- do return(existing) -%}
{%- endmacro %}

{% macro hudi_beside(relation, purpose) -%}
    {%- do return(api.Relation.create(
        schema=relation.schema, identifier=relation.identifier ~ '__' ~ purpose, type='table'
    )) -%}
{%- endmacro %}
