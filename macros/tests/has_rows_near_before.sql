{#-
    Fails if a Hudi table's number of rows is further from that before its last commit than some percent; one row with
    both. A table of one commit passes.
-#}
{% test has_rows_near_before(model, at_most_prcnt) %}

{%- set before = _table_before(model) if execute else none -%}
with counts as (
    select
        (select count(*) from {{ model }}) as row_count,
        {%- if before is none %}
        cast(null as bigint) as row_count_before
        {%- else %}
        (select count(*) from {{ before }}) as row_count_before
        {%- endif %}
)

select *
from counts
where abs(row_count - row_count_before) > row_count_before * {{ at_most_prcnt }} / 100.0

{% endtest %}

{#- A table as it was before its last commit, as it stands in `from`; none where that was its first. -#}
{% macro _table_before(relation) -%}
    {%- if relation is string -%}
        {{ exceptions.raise_compiler_error(
            "has_rows_near_before: got " ~ relation ~ ", expected a table: the test cannot have a `where`"
        ) }}
    {%- endif -%}
    {%- do return(adapter.dispatch('_table_before')(relation)) -%}
{%- endmacro %}

{% macro spark___table_before(relation) -%}
    {%- set completed = hudi_completions(hudi_commits_of_rows(hudi_commits(relation))) | sort -%}
    {%- do return(relation ~ " timestamp as of '" ~ completed[-2] ~ "'" if completed | length > 1 else none) -%}
{%- endmacro %}

{% macro athena___table_before(relation) -%}
    {%- set snapshots = relation.incorporate(path={'identifier': relation.identifier ~ '$snapshots'}) -%}
    {%- set query -%}
        select snapshot_id
        from {{ snapshots }}
        order by committed_at desc
        limit 2
    {%- endset -%}
    {%- set ids = run_query(query).columns[0].values() -%}
    {%- do return(relation ~ ' for version as of ' ~ ids[1] if ids | length > 1 else none) -%}
{%- endmacro %}
