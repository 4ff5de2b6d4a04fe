{#-
    Inserts rows and replaces those that are there, in one commit: all columns of the table. Hudi spends on a merge, which can
    do more, half as much again, or twice as much (docs/performance.md).
-#}
{% macro hudi_upsert_sql(target, rows, columns) -%}
    {%- do hudi_write_as(target, 'upsert') -%}
    insert into table {{ target }} ({{ hudi_quoted(columns) }})
    select {{ hudi_quoted(columns) }}
    from {{ rows }}
{%- endmacro %}

{#-
    How the next statement writes: what `insert into` does with rows whose key is there, and that of two writers at the same moment
    one fails. Properties of the table, told before each: settings of the session would be those of other models too, and
    with them as options `create table` does not write in bulk. It is no commit of Hudi's.
-#}
{% macro hudi_write_as(target, operation) -%}
    {%- do run_query(
        'alter table ' ~ target ~ " set tblproperties ('hoodie.spark.sql.insert.into.operation' = '" ~ operation
        ~ "', 'hoodie.write.concurrency.mode' = 'OPTIMISTIC_CONCURRENCY_CONTROL')"
    ) -%}
{%- endmacro %}
