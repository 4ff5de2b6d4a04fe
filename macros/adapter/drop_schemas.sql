{#- Drops the schemas of a build, with all they hold: the target's own and those of its layers. -#}
{% macro drop_schemas(schema) -%}
    {%- if not modules.re.match('\\w+__pr_\\w+$', schema) -%}
        {{ exceptions.raise_compiler_error("got schema = '" ~ schema ~ "', expected that of a pull request: <schema>__pr_<name>") }}
    {%- endif -%}
    {%- for row in run_query('show databases') if row[0] == schema or row[0].startswith(schema ~ '_') -%}
        {%- do run_query('drop schema if exists ' ~ adapter.quote(row[0]) ~ ' cascade') -%}
        {%- do log('dropped ' ~ row[0], info=true) -%}
    {%- endfor -%}
{%- endmacro %}
