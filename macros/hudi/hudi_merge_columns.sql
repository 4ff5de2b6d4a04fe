{% macro hudi_merge_columns(target_columns, source_columns, key, model_name) -%}
    {%- set advice = "; run it once with --full-refresh" -%}
    {%- set source_types = {} -%}
    {%- for column in source_columns -%}
        {%- do source_types.update({column.name | lower: column.dtype}) -%}
    {%- endfor -%}
    {%- set names = [] -%}
    {%- for column in target_columns -%}
        {%- set source_type = source_types.pop(column.name | lower, none) -%}
        {%- if source_type is none -%}
            {{ exceptions.raise_compiler_error(
                model_name ~ ": got no column '" ~ column.name ~ "' from the model, expected it, for the table has it" ~ advice
            ) }}
        {%- elif source_type != column.dtype -%}
            {{ exceptions.raise_compiler_error(
                model_name ~ ": got column '" ~ column.name ~ "' as " ~ source_type ~ ", expected " ~ column.dtype
                ~ " as in the table" ~ advice
            ) }}
        {%- endif -%}
        {%- do names.append(column.name) -%}
    {%- endfor -%}
    {%- if source_types -%}
        {{ exceptions.raise_compiler_error(
            model_name ~ ": got columns from the model which the table lacks: " ~ source_types.keys() | join(', ')
            ~ ", expected on_schema_change = append_new_columns" ~ advice
        ) }}
    {%- endif -%}
    {%- for column in key if column | lower not in names | map('lower') | list -%}
        {{ exceptions.raise_compiler_error(
            model_name ~ ": got unique_key column '" ~ column ~ "', expected one of " ~ names | join(', ')
        ) }}
    {%- endfor -%}
    {%- do return(names) -%}
{%- endmacro %}
