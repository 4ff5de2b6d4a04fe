{#-
    For `on-run-end`: drops what the failed models of a run, or their failed batches, have left beside their tables, and in the session,
    where the next commit of whomever would take it for its own. A run that is killed leaves its tables for a day.
-#}
{% macro hudi_drop_failed(results) -%}
    {%- for result in results if execute and result.status | string in ('error', 'partial success') and result.node.config.get('file_format') == 'hudi' -%}
        {%- do hudi_drop_left(api.Relation.create(schema=result.node.schema, identifier=result.node.alias), of_this_run=true) -%}
        {%- do hudi_reset_state(result.node.unique_id) -%}
    {%- endfor -%}
{%- endmacro %}
