{% macro hudi_merge_columns(target, target_columns, source, on_schema_change, model_name) -%}
    {%- set source_columns = adapter.get_columns_in_relation(source) -%}
    {%- set source_types, target_types = hudi_types(source_columns), hudi_types(target_columns) -%}
    {%- set added, gone, changed = [], [], [] -%}
    {%- for column in source_columns -%}
        {%- set type = target_types.get(column.name | lower) -%}
        {%- if type is none -%}
            {%- do added.append(column) -%}
        {%- elif type != column.dtype -%}
            {%- do changed.append(column.name ~ ' as ' ~ column.dtype ~ ' (the table: ' ~ type ~ ')') -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for column in target_columns if column.name | lower not in source_types -%}
        {%- do gone.append(column.name) -%}
    {%- endfor -%}

    {%- set refused = [] -%}
    {%- if added and on_schema_change == 'fail' -%}
        {%- do refused.append('new columns ' ~ added | map(attribute='name') | join(', ')) -%}
    {%- endif -%}
    {%- if gone and on_schema_change in ['fail', 'ignore'] -%}
        {%- do refused.append('no columns ' ~ gone | join(', ')) -%}
    {%- endif -%}
    {%- if changed and on_schema_change != 'sync_all_columns' -%}
        {%- do refused.append('columns ' ~ changed | join(', ')) -%}
    {%- endif -%}
    {%- if refused -%}
        {{ exceptions.raise_compiler_error(
            model_name ~ ": got " ~ refused | join(', ') ~ " from the model, expected the table's columns"
            ~ " (on_schema_change = " ~ on_schema_change ~ "); run it once with --full-refresh"
        ) }}
    {%- endif -%}
    {%- if on_schema_change == 'sync_all_columns' and (added or gone or changed) -%}
        {%- do return(none) -%}
    {%- endif -%}
    {%- if added and on_schema_change == 'append_new_columns' -%}
        {%- do alter_relation_add_remove_columns(target, added, none) -%}
        {%- set target_columns = target_columns + added -%}
    {%- endif -%}
    {%- set names = [] -%}
    {%- for column in target_columns if column.name not in gone -%}
        {%- do names.append(column.name) -%}
    {%- endfor -%}
    {%- do return(names) -%}
{%- endmacro %}
