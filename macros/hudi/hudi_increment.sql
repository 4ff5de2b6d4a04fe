{#- A run of an incremental Hudi model that has its table already. -#}
{% macro hudi_increment(existing, strategy, on_schema_change, wanted, before, upstreams) -%}
    {%- set target = existing.incorporate(type='table') -%}
    {%- set columns = hudi_merge_columns(target, wanted, on_schema_change, model.unique_id) -%}
    {%- if columns is none -%}
        {%- do log(target ~ ': its columns are others now, it is built anew (on_schema_change = sync_all_columns)', info=true) -%}
        {%- do hudi_rebuild(target, existing, wanted, upstreams) -%}
    {%- else -%}
        {%- if strategy == 'merge' -%}
            {%- do hudi_merge(target, wanted, columns, before, upstreams) -%}
        {%- else -%}
            {%- call statement('main') -%}
                {%- if strategy == 'append' -%}
                    insert into table {{ target }}
                {%- else -%}
                    insert overwrite table {{ target }} {{ partition_cols(label='partition') }}
                {%- endif %}
                select {{ hudi_quoted(columns) }}
                from {{ wanted }}
            {%- endcall -%}
        {%- endif -%}
        {%- do persist_docs(target, model) -%}
    {%- endif -%}
{%- endmacro %}
