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
    {%- do refuse_other_columns(model_name, on_schema_change, added | map(attribute='name') | list, gone, changed) -%}
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
