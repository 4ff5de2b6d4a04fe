{% macro run_query(sql) %}
    {%- set words =
        'alter|analyze|cache|clear|comment|create|delete|drop|insert|merge|msck|refresh|repair|reset|truncate|uncache|update|use'
    -%}
    {#- `set name` alone answers with the value -#}
    {%- set has_rows = modules.re.match('\\s*((' ~ words ~ ')\\b|set\\b(\\s+time\\s+zone\\b|[^=]*=))', sql, modules.re.IGNORECASE) is none -%}
    {%- call statement('run_query_statement', fetch_result=has_rows, auto_begin=false) -%}
        {{ sql }}
    {%- endcall -%}
    {%- do return(load_result('run_query_statement').table) -%}
{% endmacro %}
