{#-
    What a model's last commit says of its upstreams, as they were before it read them; none where it says nothing: another
    writer has been there since, or the table is of an earlier version of the project.

    The profile tells Hudi to keep every setting with that beginning in the commit itself, so that no state can disagree
    with the rows. The name holds the model's: threads of the embedded session share their settings.
-#}
{% macro hudi_state(target) -%}
    {%- set found = run_query(
        "call show_commit_extra_metadata(table => '" ~ hudi_name(target) ~ "', limit => 1, metadata_key => '"
        ~ hudi_state_name() ~ "')"
    ) -%}
    {%- for row in found if row['metadata_value'] -%}
        {%- do return(fromjson(row['metadata_value'])) -%}
    {%- endfor -%}
    {%- do return(none) -%}
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
