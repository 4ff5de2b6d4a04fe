{#-
    A select without the semicolon that may end it, and comments behind that: it becomes a part of other statements. A semicolon in a text
    or a comment is none.
-#}
{% macro hudi_statement(sql) -%}
    {%- if ';' not in sql -%}
        {%- do return(modules.re.sub('\\s+$', '', sql)) -%}
    {%- endif -%}
    {%- set token = "'(?:\\\\.|[^'\\\\])*'|" ~ '"(?:\\\\.|[^"\\\\])*"' ~ '|`[^`]*`|--[^\n]*|/[*].*?[*]/|[\\s;]+|[^\'"`/;\\s-]+|.' -%}
    {%- set kept, behind = [], [] -%}
    {%- for part in modules.re.findall('(?s)' ~ token, sql) -%}
        {%- if modules.re.match('[\\s;]|--|/[*]', part) -%}
            {%- do behind.append(part) -%}
        {%- else -%}
            {%- do kept.extend(behind) -%}
            {%- do behind.clear() -%}
            {%- do kept.append(part) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do return(kept | join) -%}
{%- endmacro %}
