{#-
    A snapshot's table keeps the types that its columns have: of another one a value would be cast as it is written, and as it is compared.
    1.5 would be 1 in a column of type int, and another version in each run; a text there would be null, and equal to whatever it is.
    And it needs the columns of `hard_deletes`, of which dbt-spark does not ask.
-#}
{% macro snapshot_require_columns(existing, columns) -%}
    {%- set types, names = hudi_types(hudi_described(existing).columns), {} -%}
    {%- for column in columns if types.get(column.name | lower, column.dtype) != column.dtype -%}
        {{ exceptions.raise_compiler_error(
            model.unique_id ~ ": got column '" ~ column.name ~ "' of type " ~ column.dtype ~ ", expected " ~ types[column.name | lower]
            ~ ", which the snapshot has: cast it in the select, or give it another name there; nothing was written"
        ) }}
    {%- endfor -%}
    {%- for meaning, name in (config.get('snapshot_table_column_names') or get_snapshot_table_column_names()).items() -%}
        {%- do names.update({meaning: name | lower}) -%}
    {%- endfor -%}
    {%- do adapter.assert_valid_snapshot_target_given_strategy(existing, names, {'hard_deletes': config.get('hard_deletes')}) -%}
{%- endmacro %}
