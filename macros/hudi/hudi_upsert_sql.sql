{#-
    Inserts rows and replaces those that are there, in one commit: all columns of the table. Hudi spends on a merge, which can
    do more, half as much again, or twice as much (bench/results/small_commits.md).
-#}
{% macro hudi_upsert_sql(target, rows, columns) -%}
    {%- do hudi_write_as(target, 'upsert') -%}
    insert into table {{ target }} ({{ hudi_quoted(columns) }})
    select {{ hudi_quoted(columns) }}
    from {{ rows }}
{%- endmacro %}

{#-
    How the next statement writes: what `insert into` does with rows whose key is there, whether `insert overwrite` replaces the whole
    table or the partitions of its rows, whatever strategy the table was made with, and that of two writers at the same moment one
    fails. Properties of the table, told before each: settings of the session would be those of other models too, and
    with them as options `create table` does not write in bulk. It is no commit of Hudi's. The lock is of the session that writes, and
    is told to the table too: `alter table` looks there alone. A merge brings the table to the catalog, whatever the session says of that:
    of a merge-on-read table as `<name>_ro` and `<name>_rt` as well, in the place of what has these names, unless its strategy is RT.
-#}
{% macro hudi_write_as(target, operation) -%}
    {#- Spark puts a setting in the place of its name -#}
    {%- set lock = run_query("select '${spark.hoodie.write.lock.provider}' as provider")[0]['provider'] -%}
    {%- if lock.startswith('$') -%}
        {{ exceptions.raise_compiler_error(
            model.unique_id ~ ': got no spark.hoodie.write.lock.provider in the settings of the Spark session, expected a lock provider of Hudi '
            ~ '(profiles/profiles.yml has one): two runs may write to ' ~ target ~ ' at the same moment'
        ) }}
    {%- endif -%}
    {%- do run_query(
        'alter table ' ~ target ~ " set tblproperties ('hoodie.spark.sql.insert.into.operation' = '" ~ operation
        ~ "', 'hoodie.datasource.overwrite.mode' = '" ~ hudi_options().get('hoodie.datasource.overwrite.mode', 'static')
        ~ "', 'hoodie.write.concurrency.mode' = 'OPTIMISTIC_CONCURRENCY_CONTROL', 'hoodie.write.lock.provider' = '" ~ lock
        ~ "', 'hoodie.write.lock.filesystem.expire' = '1'"
        ~ (", 'hoodie.datasource.hive_sync.table.strategy' = 'RT'" if hudi_options().get('type') == 'mor' else '') ~ ')'
    ) -%}
{%- endmacro %}
