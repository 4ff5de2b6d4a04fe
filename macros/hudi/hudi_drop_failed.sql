{#-
    For `on-run-end`: drops what the failed models and seeds of a run, or their failed batches, have left beside their tables, and in the
    session, where the next commit of whomever would take it for its own. A run that is killed leaves its tables for a day.
-#}
{% macro hudi_drop_failed(results) -%}
    {%- for result in results if execute and result.status | string in ('error', 'partial success') and _is_written_beside(result.node) -%}
        {%- do hudi_drop_left(api.Relation.create(schema=result.node.schema, identifier=result.node.alias), of_this_run=true) -%}
        {%- do hudi_reset_state(result.node.unique_id) -%}
    {%- endfor -%}
{%- endmacro %}

{#- Whether a node is written beside its table. -#}
{% macro _is_written_beside(node) -%}
    {%- do return(node.config.get('file_format') == 'hudi' or (node.resource_type == 'seed' and target.type == 'spark')) -%}
{%- endmacro %}
