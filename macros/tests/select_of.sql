{#-
    The full select of a model, compiled where another node is at work (a test): dbt refuses `ref` there to what the node itself
    does not refer to. What the select refers to is found in dbt's graph, ephemeral models as their own selects.
-#}
{% macro select_of(node) -%}
    {%- set names -%}
        {{ "{% set model = graph.nodes['" ~ node.unique_id ~ "'] %}" }}
        {% raw %}{% set ref, this = relation_of_ref, relation_named(model.schema, model.alias) %}{% endraw %}
    {%- endset -%}
    {%- do return(hudi_statement(render(names ~ node.raw_code))) -%}
{%- endmacro %}

{#- What `ref` gives, by dbt's graph. -#}
{% macro relation_of_ref() -%}
    {%- set name, version = varargs[-1], kwargs.get('version', kwargs.get('v')) -%}
    {%- set found = [] -%}
    {%- for node in graph.nodes.values()
        if node.resource_type in ['model', 'seed', 'snapshot'] and node.name == name
        and (varargs | length == 1 or node.package_name == varargs[0])
        and node.get('version') | string == (version if version is not none else node.get('latest_version')) | string -%}
        {%- do found.append(node) -%}
    {%- endfor -%}
    {%- if not found -%}
        {{ exceptions.raise_compiler_error("got ref('" ~ varargs | join("', '") ~ "'), expected a model, seed or snapshot of the project") }}
    {%- elif found[0].config.materialized == 'ephemeral' -%}
        {%- do return('(\n' ~ select_of(found[0]) ~ '\n)') -%}
    {%- endif -%}
    {%- do return(relation_of_text(relation_of(found[0]))) -%}
{%- endmacro %}
