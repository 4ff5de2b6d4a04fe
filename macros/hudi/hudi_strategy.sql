{% macro hudi_strategy() -%}
    {%- set strategy = config.get('incremental_strategy') or 'merge' -%}
    {%- set known = ['merge', 'append', 'insert_overwrite', 'microbatch'] -%}
    {%- if strategy not in known -%}
        {{ exceptions.raise_compiler_error(
            model.unique_id ~ ": got incremental_strategy = '" ~ strategy ~ "', expected one of " ~ known | join(', ')
        ) }}
    {%- endif -%}
    {%- set of_merges = [
        'merge_update_columns', 'merge_exclude_columns', 'merge_update_columns_rules', 'merge_update_columns_default_rule',
        'update_condition', 'delete_condition', 'insert_condition'
    ] -%}
    {%- for name in ['incremental_predicates', 'predicates'] + (of_merges if strategy == 'merge' else []) if config.get(name) -%}
        {{ exceptions.raise_compiler_error(
            model.unique_id ~ ": got " ~ name ~ " = " ~ config.get(name) ~ ", expected none: " ~ (
                'a merge of a part would no longer equal the full refresh' if strategy == 'merge'
                else strategy ~ ' looks at none of the rows that are there'
            )
        ) }}
    {%- endfor -%}
    {%- if strategy in ['insert_overwrite', 'microbatch'] and not config.get('partition_by') -%}
        {{ exceptions.raise_compiler_error(
            model.unique_id ~ ": got incremental_strategy = '" ~ strategy
            ~ "' without partition_by, expected the columns of the partitions that a run replaces"
        ) }}
    {%- endif -%}
    {%- do return(strategy) -%}
{%- endmacro %}
