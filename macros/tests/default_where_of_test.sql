{% macro default_where_of_test(test_node, project_graph) -%}
    {%- if not execute or not (test_node.file_key_name or '').startswith('sources.') -%}
        {%- do return('') -%}
    {%- endif -%}
    {%- for unique_id in test_node.depends_on.nodes if unique_id.startswith('source.') -%}
        {%- for each in project_graph.sources.values() if each.source_name == project_graph.sources[unique_id].source_name -%}
            {%- if (each.source_meta or {}).get('ingest') or (each.config.meta or {}).get('ingest') -%}
                {%- do return(is_live()) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- do return('') -%}
{%- endmacro %}
