{#-
    Whether a snapshot that is there stays as it is, since the command reads no rows of the upstreams, or some (`--empty`,
    `--sample`): the rows that are missing would be deleted ones. Unlike a table (`hudi_stays`), also with `--full-refresh`: dbt
    never builds a snapshot anew.
-#}
{% macro snapshot_stays(target, existing) -%}
    {%- set said = '--empty' if flags.EMPTY else ('--sample' if invocation_args_dict.get('sample') else none) -%}
    {%- if said is none or existing is none or not existing.is_hudi -%}
        {%- do return(false) -%}
    {%- endif -%}
    {#- An error in the select is found all the same -#}
    {%- do get_columns_in_query(model['compiled_code']) -%}
    {%- do log(target ~ ': it stays as it is: ' ~ said ~ ' reads no more of the upstreams than it has to', info=true) -%}
    {%- call statement('main') -%} select 'the snapshot stays as it is' as result {%- endcall -%}
    {%- do return(true) -%}
{%- endmacro %}
