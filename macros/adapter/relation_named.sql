{#- A relation by its names: of Spark's it has no database, of Athena's the catalog of Glue. -#}
{% macro relation_named(schema, identifier) -%}
    {%- do return(adapter.dispatch('relation_named')(schema, identifier)) -%}
{%- endmacro %}

{#- The relation of a name as it stands in a statement, with its schema. -#}
{% macro relation_of_text(text) -%}
    {%- set schema, identifier = (text | string).replace('`', '').replace('"', '').split('.')[-2:] -%}
    {%- do return(relation_named(schema, identifier)) -%}
{%- endmacro %}

{% macro spark__relation_named(schema, identifier) -%}
    {%- do return(api.Relation.create(schema=schema, identifier=identifier)) -%}
{%- endmacro %}

{% macro athena__relation_named(schema, identifier) -%}
    {%- do return(api.Relation.create(database=target.database, schema=schema, identifier=identifier)) -%}
{%- endmacro %}
