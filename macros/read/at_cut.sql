{#- Every model of one invocation reads the same cut: the newest that there was when it began. -#}
{% macro at_cut(relation) -%}
    {{ return(adapter.dispatch('at_cut')(relation)) }}
{%- endmacro %}

{% macro spark__at_cut(relation) -%}
    {%- set instants = [] -%}
    {%- if execute -%}
        {%- set cuts = api.Relation.create(schema=relation.schema, identifier='_cuts') -%}
        {%- set query -%}
            select max_by(instant, cut_at) as instant
            from {{ cuts }}
            where
                source_table = '{{ relation.identifier }}'
                and cut_at <= timestamp '{{ run_started_at.strftime("%Y-%m-%d %H:%M:%S.%f+00:00") }}'
        {%- endset -%}
        {%- set instants = run_query(query).columns[0].values() -%}
        {%- if not instants[0] -%}
            {{ exceptions.raise_compiler_error(
                relation ~ ' is in no cut: its source must declare consistent: transaction, and must have been landed'
            ) }}
        {%- endif -%}
    {%- endif -%}
    select *
    from {{ as_of(relation, instants[0]) if execute else relation }}
    where {{ is_live() }}
{%- endmacro %}

{% macro default__at_cut(relation) -%}
    {%- do refuse_engine('at_cut', 'it has no time travel for Hudi tables; a table that Spark builds of its rows can be read') -%}
    {{ live_rows(relation) }}
{%- endmacro %}
