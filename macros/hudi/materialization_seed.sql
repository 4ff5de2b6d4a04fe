{#-
    In place of dbt's, which drops the table before it has seen the rows: of a value that is none of its column's type, or a run that is
    killed, there would be no table, or a part of one, and incremental models would remove what they had of it.
-#}
{% materialization seed, adapter='spark' %}
    {%- set existing, rows = hudi_present(this), load_agate_table() -%}
    {%- if existing is not none and existing.is_view -%}
        {%- do exceptions.raise_compiler_error("Cannot seed to '" ~ this ~ "', it is a view") -%}
    {%- endif -%}
    {#- dbt shows them with `--show` -#}
    {%- do store_result('agate_table', response='OK', agate_table=rows) -%}

    {{ run_hooks(pre_hooks) }}

    {%- set written = hudi_beside(this, 'built') -%}
    {%- call noop_statement('main', 'INSERT ' ~ rows.rows | length, 'INSERT', rows.rows | length) -%}
        {{ seed_write(written, rows) }}
    {%- endcall -%}
    {{ return(named_when_whole(written, existing)) }}
{% endmaterialization %}
