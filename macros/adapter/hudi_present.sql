{#-
    What stands under a model's name. A rebuild that was broken off between its two renames has left the name free and
    the old table beside it: it comes back first.
-#}
{% macro hudi_present(relation) -%}
    {%- set existing = load_relation(relation) -%}
    {%- set set_aside = hudi_set_aside(relation) -%}
    {%- if existing is none and load_relation(set_aside) is not none -%}
        {%- do log(relation ~ ': a rebuild was broken off, the table it was to replace is put back', info=true) -%}
        {%- do adapter.rename_relation(set_aside, relation.incorporate(type='table', dbt_created=true)) -%}
        {%- set existing = load_relation(relation) -%}
    {%- endif -%}
    {%- do hudi_drop_left(relation) -%}
    {%- do return(existing) -%}
{%- endmacro %}

{#-
    A table beside another one, for the length of a run. A run that is killed can leave a folder that is no table yet, and Spark
    makes no table where a folder is: each run has names of its own, which say when it began.
-#}
{% macro hudi_beside(relation, purpose) -%}
    {%- do return(api.Relation.create(
        schema=relation.schema, identifier=[relation.identifier, purpose, _run_name()] | join('__'), type='table'
    )) -%}
{%- endmacro %}

{#- The second of its beginning, and eight digits of dbt's invocation. -#}
{% macro _run_name() -%}
    {%- do return('%08x' | format(run_started_at.timestamp() | int) ~ '_' ~ invocation_id[:8]) -%}
{%- endmacro %}

{#-
    Drops the tables and views that runs have left beside a table: this one, with `of_this_run`; else those that began more than a day
    ago, for a younger one may be at work.
-#}
{% macro hudi_drop_left(relation, of_this_run=false) -%}
    {%- set beside = ' in ' ~ adapter.quote(relation.schema) ~ " like '" ~ relation.identifier ~ "__*'" -%}
    {%- set tables = run_query('show tables' ~ beside) -%}
    {%- set views = run_query('show views' ~ beside) | map(attribute='viewName') | list if tables else [] -%}
    {%- for row in tables -%}
        {%- for began, invocation in modules.re.findall('(?i)^' ~ relation.identifier ~ '__[a-z]+(?:_[0-9]+)?__([0-9a-f]{8})_([0-9a-f]{8})$', row['tableName']) -%}
            {%- set age = run_started_at.timestamp() - began | int(base=16) -%}
            {%- if (of_this_run and began ~ '_' ~ invocation == _run_name()) or (not of_this_run and age > 86400) -%}
                {%- set left = api.Relation.create(schema=relation.schema, identifier=row['tableName'], type='table') -%}
                {%- do run_query('drop view ' ~ left) if row['tableName'] in views else hudi_drop(left) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
{%- endmacro %}

{#- Where the old table stands while another one takes its name: nowhere that a model, seed, snapshot or source has. -#}
{% macro hudi_set_aside(relation) -%}
    {%- set taken, place = [], {'name': relation.identifier ~ '__before'} -%}
    {%- for node in graph.nodes.values() | list + graph.sources.values() | list if node.schema | lower == relation.schema | lower -%}
        {%- do taken.append((node.get('alias') or node.get('identifier') or '') | lower) -%}
    {%- endfor -%}
    {%- for attempt in taken -%}
        {%- do place.update({'name': place.name ~ '_' if place.name | lower in taken else place.name}) -%}
    {%- endfor -%}
    {%- do return(api.Relation.create(schema=relation.schema, identifier=place.name, type='table')) -%}
{%- endmacro %}
