{#-
    In place of dbt-spark's, for Hudi tables: the model's select is the whole table as it should be, and the merge
    turns the table into exactly that, rows to be removed included. Other formats keep dbt-spark's merge.

    The difference is computed once and kept while it is needed: Hudi's merge reads its source several times, and
    without a difference there is nothing to commit. dbt runs what is returned last: it lets go of the difference.
-#}
{% macro spark__get_merge_sql(target, source, unique_key, dest_columns, incremental_predicates) %}
    {%- if config.get('file_format') != 'hudi' -%}
        {%- do return(dbt.spark__get_merge_sql(target, source, unique_key, dest_columns, incremental_predicates)) -%}
    {%- endif -%}
    {%- set key = key_columns(unique_key, model.unique_id) -%}
    {%- for name in ['incremental_predicates', 'predicates', 'merge_update_columns', 'merge_exclude_columns'] -%}
        {%- if config.get(name) -%}
            {{ exceptions.raise_compiler_error(
                model.unique_id ~ ": got " ~ name ~ " = " ~ config.get(name)
                ~ ", expected none: a merge of a part would no longer equal the full refresh"
            ) }}
        {%- endif -%}
    {%- endfor -%}
    {%- if config.get('contract').enforced -%}
        {#- dbt-spark checks the contract where it creates a table, and nowhere else -#}
        {%- do get_assert_columns_equivalent(model.compiled_code) -%}
    {%- endif -%}
    {%- set columns = hudi_merge_columns(
        adapter.get_columns_in_relation(target), adapter.get_columns_in_relation(source), key, model.unique_id
    ) -%}

    {%- set difference = adapter.quote(target.schema ~ '__' ~ target.identifier ~ '__difference') -%}
    {%- do run_query('drop view if exists ' ~ difference) -%}
    {%- do run_query('cache table ' ~ difference ~ ' as ' ~ hudi_difference_sql(target, source, key, columns)) -%}
    {%- set row_count = run_query('select count(*) as row_count from ' ~ difference).columns[0].values()[0] -%}
    {%- do log(target ~ ': ' ~ row_count ~ ' rows differ') -%}
    {%- if row_count > 0 -%}
        {%- do run_query(hudi_merge_sql(target, difference, key, columns)) -%}
    {%- endif -%}
    {%- do return('drop view if exists ' ~ difference) -%}
{% endmacro %}
