{#-
    The relation that `ref` gives for a node of dbt's graph: with `--defer`, main's where the node is not built here. A
    macro that looks behind the views of a model has their nodes only.
-#}
{% macro relation_of(node) -%}
    {%- set deferred = node.get('defer_relation') -%}
    {%- if deferred and invocation_args_dict.get('defer') -%}
        {%- set is_chosen = node.unique_id in selected_resources -%}
        {%- if (invocation_args_dict.get('favor_state') and not is_chosen) or load_relation(
            relation_named(node.schema, node.alias)
        ) is none -%}
            {%- do return(deferred.relation_name) -%}
        {%- endif -%}
    {%- endif -%}
    {%- do return(node.relation_name) -%}
{%- endmacro %}
