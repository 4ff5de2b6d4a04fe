{#-
    In place of dbt-spark's, for Hudi tables: the model's select is the whole table as it should be, and the merge
    turns the table into exactly that, rows to be removed included. Other formats keep dbt-spark's merge.
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
    {%- do return(hudi_merge_sql(target, hudi_difference_sql(target, source, key, columns), key, columns)) -%}
{% endmacro %}
