{#-
    Keeps the rows of a query as a table beside the model's, for the length of a run. A cached view would be planned anew,
    with all that the query reads, each time it is looked at: Hudi's merge looks at its source several times.
-#}
{% macro hudi_materialize(table, query) -%}
    {%- if model.batch -%}
        {%- do hudi_drop(table) -%}    {#- the batch before, of the same run, has left its own where it was refused -#}
    {%- endif -%}
    {%- do run_query('create table ' ~ table ~ ' using parquet as ' ~ query) -%}
{%- endmacro %}

{% macro hudi_drop(table) -%}
    {%- do run_query('drop table if exists ' ~ table ~ ' purge') -%}
{%- endmacro %}
