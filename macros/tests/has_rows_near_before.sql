{#-
    Fails if a Hudi table's number of rows is further from that before its last commit than some percent; one row with
    both. A table of one commit passes.
-#}
{% test has_rows_near_before(model, at_most_prcnt) %}

{%- set before = _completed_before(model) if execute else none -%}
with counts as (
    select
        (select count(*) from {{ model }}) as row_count,
        {%- if before is none %}
        cast(null as bigint) as row_count_before
        {%- else %}
        (select count(*) from {{ model }} timestamp as of '{{ before }}') as row_count_before
        {%- endif %}
)

select *
from counts
where abs(row_count - row_count_before) > row_count_before * {{ at_most_prcnt }} / 100.0

{% endtest %}

{#- When the commit before a Hudi table's last one was completed, as time travel takes it; none where there is none. -#}
{% macro _completed_before(relation) -%}
    {%- if relation is string -%}
        {{ exceptions.raise_compiler_error(
            "has_rows_near_before: got " ~ relation ~ ", expected a table: the test cannot have a `where`"
        ) }}
    {%- endif -%}
    {%- set completed = hudi_commits_of_rows(relation) | map(attribute='state_transition_time') | sort -%}
    {%- do return(completed[-2] if completed | length > 1 else none) -%}
{%- endmacro %}
