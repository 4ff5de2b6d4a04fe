{#-
    dbt-spark's, for a table of files made of `select *` of a Hudi table. Hudi's own five columns are no columns of a table to dbt-spark:
    they stay out, or no increment could be inserted beside them, which has none.
-#}
{% macro spark__create_table_as(temporary, relation, compiled_code, language='sql') -%}
    {%- if not temporary and language == 'sql' and config.get('file_format') != 'hudi' -%}
        {%- set compiled_code = _without_columns_of_hudi(compiled_code) -%}
    {%- endif -%}
    {{- dbt.spark__create_table_as(temporary, relation, compiled_code, language) -}}
{%- endmacro %}

{#- A select that shows one of them by itself means it, and stays as it is. -#}
{% macro _without_columns_of_hudi(sql) -%}
    {%- set own = ['_hoodie_commit_time', '_hoodie_commit_seqno', '_hoodie_record_key', '_hoodie_partition_path', '_hoodie_file_name'] -%}
    {%- set names = run_query('describe query ' ~ sql).columns[0].values() | list -%}
    {%- if own | reject('in', names) | list -%}
        {%- do return(sql) -%}
    {%- endif -%}
    {%- do return('select ' ~ hudi_quoted(names | reject('in', own) | list) ~ ' from (\n' ~ hudi_statement(sql) ~ '\n)') -%}
{%- endmacro %}
