{% macro hudi_strategy() -%}
    {%- set strategy = config.get('incremental_strategy') or 'merge' -%}
    {%- set known = ['merge', 'append', 'insert_overwrite', 'microbatch'] -%}
    {%- if strategy not in known -%}
        {{ exceptions.raise_compiler_error(
            model.unique_id ~ ": got incremental_strategy = '" ~ strategy ~ "', expected one of " ~ known | join(', ')
        ) }}
    {%- endif -%}
    {%- if strategy == 'merge' -%}
        {%- for name in ['incremental_predicates', 'predicates', 'merge_update_columns', 'merge_exclude_columns'] -%}
            {%- if config.get(name) -%}
                {{ exceptions.raise_compiler_error(
                    model.unique_id ~ ": got " ~ name ~ " = " ~ config.get(name)
                    ~ ", expected none: a merge of a part would no longer equal the full refresh"
                ) }}
            {%- endif -%}
        {%- endfor -%}
    {%- elif strategy in ['insert_overwrite', 'microbatch'] and not config.get('partition_by') -%}
        {{ exceptions.raise_compiler_error(
            model.unique_id ~ ": got incremental_strategy = '" ~ strategy
            ~ "' without partition_by, expected the columns of the partitions that a run replaces"
        ) }}
    {%- endif -%}
    {%- do return(strategy) -%}
{%- endmacro %}
