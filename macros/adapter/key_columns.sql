{% macro key_columns(unique_key, model_name) -%}
    {%- set expected = "expected unique_key = a column or a list of columns, for a Hudi table has a record key" -%}
    {%- if unique_key is string -%}
        {%- set columns = unique_key.split(',') -%}
    {%- elif unique_key is sequence and unique_key is not mapping -%}
        {%- set columns = unique_key | list -%}
    {%- else -%}
        {%- set columns = [] -%}
    {%- endif -%}
    {%- for column in columns if column is not string or not column | trim -%}
        {{ exceptions.raise_compiler_error(model_name ~ ": got unique_key = " ~ unique_key ~ ", " ~ expected) }}
    {%- endfor -%}
    {%- set columns = columns | map('trim') | list -%}
    {%- if not columns or columns | unique | list | length < columns | length -%}
        {{ exceptions.raise_compiler_error(model_name ~ ": got unique_key = " ~ unique_key ~ ", " ~ expected) }}
    {%- endif -%}
    {%- do return(columns) -%}
{%- endmacro %}
