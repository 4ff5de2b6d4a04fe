{#-
    What stands in `from`: a Hudi table as its commits that had completed by an instant left it. Where a value is none of
    Hudi's forms, its reader says so only when the query runs.
-#}
{% macro as_of(relation, timestamp) -%}
    {{ return(adapter.dispatch('as_of')(relation, timestamp)) }}
{%- endmacro %}

{% macro spark__as_of(relation, timestamp) -%}
    {%- if not modules.re.match('(\\d{4}-\\d\\d-\\d\\d( \\d\\d:\\d\\d:\\d\\d(\\.\\d{3})?)?|\\d{14}(\\d{3})?)$', timestamp | string) -%}
        {{ exceptions.raise_compiler_error(
            relation ~ ": got timestamp = '" ~ timestamp ~ "', expected yyyy-MM-dd, yyyy-MM-dd HH:mm:ss[.SSS], or an instant of "
            ~ "Hudi's timeline, yyyyMMddHHmmss[SSS]"
        ) }}
    {%- endif -%}
    {{ relation }} timestamp as of '{{ timestamp }}'
{%- endmacro %}

{% macro default__as_of(relation, timestamp) -%}
    {%- do refuse_engine('as_of', 'it has no time travel for Hudi tables; a table that Spark builds from as_of can be read') -%}
    {{ relation }}
{%- endmacro %}
