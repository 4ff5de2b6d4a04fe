{#-
    Drops the schemas of a build, with all they hold: the target's own, and those of the project's nodes beside it. That of another
    build may begin alike. Catalogs have names in lower case.
-#}
{% macro drop_schemas(schema) -%}
    {%- if not modules.re.match('\\w+__pr_\\w+$', schema) -%}
        {{ exceptions.raise_compiler_error("got schema = '" ~ schema ~ "', expected that of a pull request: <schema>__pr_<name>") }}
    {%- endif -%}
    {%- set of_build = [schema | lower] -%}
    {%- for node in graph.nodes.values() if node.schema.startswith(target.schema ~ '_') -%}
        {%- do of_build.append((schema ~ node.schema[target.schema | length:]) | lower) -%}
    {%- endfor -%}
    {%- for row in run_query('show databases') if row[0] | lower in of_build -%}
        {%- do adapter.dispatch('_drop_schema')(row[0]) -%}
        {%- do log('dropped ' ~ row[0], info=true) -%}
    {%- endfor -%}
{%- endmacro %}

{% macro spark___drop_schema(schema) -%}
    {%- do run_query('drop schema if exists ' ~ adapter.quote(schema) ~ ' cascade') -%}
{%- endmacro %}

{#- Table by table: Athena's own would leave their files. -#}
{% macro athena___drop_schema(schema) -%}
    {%- for relation in adapter.list_relations_without_caching(relation_named(schema, '')) -%}
        {%- do adapter.drop_relation(relation) -%}
    {%- endfor -%}
    {%- do adapter.drop_glue_database(schema) -%}
{%- endmacro %}
