{#-
    What stands under a model's name. A rebuild that was broken off between its two renames has left the name free and
    the old table beside it: it comes back first. What other runs that were broken off have left beside is dropped.
-#}
{% macro hudi_present(relation) -%}
    {%- set existing = load_relation(relation) -%}
    {%- set set_aside = hudi_set_aside(relation) -%}
    {%- if existing is none and load_relation(set_aside) is not none -%}
        {%- do log(relation ~ ': a rebuild was broken off, the table it was to replace is put back', info=true) -%}
        {%- do adapter.rename_relation(set_aside, relation.incorporate(type='table')) -%}
        {%- set existing = load_relation(relation) -%}
    {%- endif -%}
    {%- for row in run_query('show tables in ' ~ adapter.quote(relation.schema) ~ " like '" ~ relation.identifier ~ "__*'")
        if modules.re.fullmatch(relation.identifier ~ '__[a-z]+(_[0-9]+)?__[0-9a-f]{8}', row['tableName']) -%}
        {%- do hudi_drop(api.Relation.create(schema=relation.schema, identifier=row['tableName'], type='table')) -%}
    {%- endfor -%}
    {%- do return(existing) -%}
{%- endmacro %}

{#-
    A table beside another one, for the length of a run. A run that is killed can leave a folder that is no table yet, and Spark
    makes no table where a folder is: each run has names of its own.
-#}
{% macro hudi_beside(relation, purpose) -%}
    {%- do return(api.Relation.create(
        schema=relation.schema, identifier=[relation.identifier, purpose, invocation_id[:8]] | join('__'), type='table'
    )) -%}
{%- endmacro %}

{#- Where the old table stands while another one takes its name. -#}
{% macro hudi_set_aside(relation) -%}
    {%- do return(api.Relation.create(schema=relation.schema, identifier=relation.identifier ~ '__before', type='table')) -%}
{%- endmacro %}
