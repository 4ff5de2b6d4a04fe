{#-
    For `on-run-start`. dbt takes no materialization from a package: in another project's run its own would write this project's tables,
    without a condition on what is there, and leave rows twice. Views and tests need none.
-#}
{% macro refuse_other_project() -%}
    {%- if execute and project_name != model.package_name -%}
        {%- set written = [] -%}
        {%- for node in graph.nodes.values() if node.unique_id in selected_resources and node.package_name == model.package_name -%}
            {%- if node.config.materialized in ('table', 'incremental', 'snapshot') -%}
                {%- do written.append(node.name) -%}
            {%- endif -%}
        {%- endfor -%}
        {%- if written -%}
            {{ exceptions.raise_compiler_error(
                'got tables of the package ' ~ model.package_name ~ ' (' ~ written | sort | join(', ') ~ ') in a run of the project '
                ~ project_name ~ ', expected a run of their own project: dbt takes no materialization from a package; run dbt there, and '
                ~ 'read the tables here as sources, or leave them out by --exclude package:' ~ model.package_name
            ) }}
        {%- endif -%}
    {%- endif -%}
{%- endmacro %}
