{#- What `on_schema_change` does not allow, in one sentence. -#}
{% macro refuse_other_columns(model_name, on_schema_change, added, gone, changed=()) -%}
    {%- set refused = [] -%}
    {%- if added and on_schema_change == 'fail' -%}
        {%- do refused.append('new columns ' ~ added | join(', ')) -%}
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
{%- endmacro %}
