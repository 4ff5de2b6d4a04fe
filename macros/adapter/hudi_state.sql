{#-
    A Hudi table of a model as it is found: the `instant` of its last commit of rows, and what that commit `recorded` of the upstreams,
    as they were before it read them, and when it was `completed`; none where it tells nothing that holds. Another writer has
    been there since, or between the moment that its run looked at the table and its commit; or the table is of an earlier version
    of the project.

    The profile tells Hudi to keep every setting with that beginning in the commit itself, so that no state can disagree
    with the rows. The name holds the model's: threads of the embedded session share their settings.
-#}
{% macro hudi_state(target, unique_id=model.unique_id) -%}
    {%- set commits = hudi_commits_of_rows(hudi_commits(target)) -%}
    {%- set instants = commits | map(attribute='commit_time') | list + ['', ''] -%}
    {%- set kept = hudi_kept_in_commit(target, hudi_state_name(unique_id), commits) -%}
    {%- set recorded = none if kept is none else fromjson(kept.value) -%}
    {%- if recorded is none or recorded.get('stands_on') != instants[1] -%}
        {%- do return({'instant': instants[0], 'recorded': none}) -%}
    {%- endif -%}
    {%- do return({'instant': instants[0], 'recorded': dict(recorded, completed=kept.completed)}) -%}
{%- endmacro %}

{#-
    For the next commit; `stands_on` is the last one before it that its run has looked at, none of a new table. In quotes, for a comment
    behind the statement (`query-comment` of dbt with `append`) would be a part of the value.
-#}
{% macro hudi_set_state(upstreams, stands_on='') -%}
    {%- set state = tojson(dict(upstreams, stands_on=stands_on), sort_keys=true) -%}
    {%- do run_query('set `' ~ hudi_state_name() ~ '` = `' ~ state.replace('`', '``') ~ '`') -%}
{%- endmacro %}

{% macro hudi_reset_state(unique_id=model.unique_id) -%}
    {%- do run_query('reset `' ~ hudi_state_name(unique_id) ~ '`') -%}
{%- endmacro %}

{% macro hudi_state_name(unique_id=model.unique_id) -%}
    {%- do return('hoodie.lakehouse.' ~ unique_id) -%}
{%- endmacro %}

{#- A relation's name for Hudi's procedures, which take no quotes. -#}
{% macro hudi_name(relation) -%}
    {%- do return((relation | string).replace('`', '')) -%}
{%- endmacro %}
