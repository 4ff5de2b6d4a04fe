{#-
    dbt's own, which leaves word for the materialization (`hudi_part`): a model that asks may select a part of its rows. Who asks dbt's own
    by the name of its package is known by the text, for which this one does not name it so. What `dbt show --inline` is given is no node
    of the graph.
-#}
{% macro is_incremental() -%}
    {%- if execute and model.config.materialized == 'incremental' and model.unique_id in graph.nodes -%}
        {%- do graph.nodes[model.unique_id].update(asks_is_incremental=true) -%}
    {%- endif -%}
    {%- do return(context.dbt.is_incremental()) -%}
{%- endmacro %}
