{#- dbt's own, which leaves word for the materialization (`hudi_part`): a model that asks may select a part of its rows. -#}
{% macro is_incremental() -%}
    {%- if execute and model.config.materialized == 'incremental' -%}
        {%- do graph.nodes[model.unique_id].update(asks_is_incremental=true) -%}
    {%- endif -%}
    {%- do return(dbt.is_incremental()) -%}
{%- endmacro %}
