{% macro default_where_of_test(test_node, project_graph) -%}
    {%- if not execute or not (test_node.file_key_name or '').startswith('sources.') -%}
        {%- do return('') -%}
    {%- endif -%}
    {%- for unique_id in test_node.depends_on.nodes if unique_id.startswith('source.') -%}
        {%- set source_node = project_graph.sources[unique_id] -%}
        {%- set defaults = (source_node.source_meta or {}).get('ingest', {}) -%}
        {%- set ingest = dict(defaults, **(source_node.config.meta or {}).get('ingest', {})) -%}
        {%- if ingest.get('deletes') == 'soft' -%}
            {%- do return(is_live()) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do return('') -%}
{%- endmacro %}
