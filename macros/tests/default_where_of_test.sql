{% macro default_where_of_test(test_node, project_graph) -%}
    {%- if not execute or not (test_node.file_key_name or '').startswith('sources.') -%}
        {%- do return('') -%}
    {%- endif -%}
    {%- for unique_id in test_node.depends_on.nodes if unique_id.startswith('source.') and _is_landed(project_graph.sources[unique_id], project_graph) -%}
        {%- do return(is_live()) -%}
    {%- endfor -%}
    {%- do return('') -%}
{%- endmacro %}

{#- Whether ingest lands a source: what its tables have in common may stand at one of them, or above. -#}
{% macro _is_landed(source, project_graph) -%}
    {%- for each in project_graph.sources.values() if each.source_name == source.source_name -%}
        {%- if (each.source_meta or {}).get('ingest') or (each.config.meta or {}).get('ingest') -%}
            {%- do return(true) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do return(false) -%}
{%- endmacro %}
