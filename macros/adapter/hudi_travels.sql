{% macro hudi_travels(sql) -%}
    {%- do return(modules.re.search('\\b(timestamp|version)\\s+as\\s+of\\b', sql, modules.re.IGNORECASE) is not none) -%}
{%- endmacro %}
