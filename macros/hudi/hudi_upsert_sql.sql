{#-
    Inserts rows and replaces those that are there, in one commit: all columns of the table. Hudi spends on a merge, which can
    do more, half as much again, or twice as much (docs/performance.md).
-#}
{% macro hudi_upsert_sql(target, rows, columns) -%}
    {%- do hudi_insert_as(target, 'upsert') -%}
    insert into table {{ target }} ({{ hudi_quoted(columns) }})
    select {{ hudi_quoted(columns) }}
    from {{ rows }}
{%- endmacro %}

{#-
    What `insert into` does with rows whose key is there. A property of the table, told before each: the session's setting would
    be that of other models too, and with the option `create table` does not write in bulk. It is no commit of Hudi's.
-#}
{% macro hudi_insert_as(target, operation) -%}
    {%- do run_query(
        'alter table ' ~ target ~ " set tblproperties ('hoodie.spark.sql.insert.into.operation' = '" ~ operation ~ "')"
    ) -%}
{%- endmacro %}
