{#-
    dbt's own macro, which wraps the relation under test in its `where`. Ours gives a test on a table that ingest lands a
    `where` that leaves out tombstones: PostgreSQL's have nulls in place of the row's values.
    A test with a `where` of its own keeps that.
-#}
{% macro spark__get_where_subquery(relation) -%}
    {%- set where = config.get('where', '') or default_where_of_test(model, graph) -%}
    {%- if where -%}
        {%- do return('(select * from ' ~ relation ~ ' where ' ~ where ~ ') dbt_subquery') -%}
    {%- else -%}
        {%- do return(relation) -%}
    {%- endif -%}
{%- endmacro %}

{% macro athena__get_where_subquery(relation) -%}
    {%- do return(spark__get_where_subquery(relation)) -%}
{%- endmacro %}
