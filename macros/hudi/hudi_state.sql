{#-
    What a model's last commit says of its upstreams, as they were before it read them, and when it was `completed`; none where
    it says nothing: another writer has been there since, or the table is of an earlier version of the project.

    The profile tells Hudi to keep every setting with that beginning in the commit itself, so that no state can disagree
    with the rows. The name holds the model's: threads of the embedded session share their settings.
-#}
{% macro hudi_state(target) -%}
    {%- set kept = hudi_kept_in_commit(target, hudi_state_name()) -%}
    {%- do return(none if kept is none else dict(fromjson(kept.value), completed=kept.completed)) -%}
{%- endmacro %}

{% macro hudi_set_state(upstreams) -%}
    {%- do run_query('set ' ~ hudi_state_name() ~ '=' ~ tojson(upstreams, sort_keys=true)) -%}
{%- endmacro %}

{% macro hudi_reset_state() -%}
    {%- do run_query('reset ' ~ hudi_state_name()) -%}
{%- endmacro %}

{% macro hudi_state_name() -%}
    {%- do return('hoodie.lakehouse.' ~ model.unique_id) -%}
{%- endmacro %}

{#- A relation's name for Hudi's procedures, which take no quotes. -#}
{% macro hudi_name(relation) -%}
    {%- do return((relation | string).replace('`', '')) -%}
{%- endmacro %}
