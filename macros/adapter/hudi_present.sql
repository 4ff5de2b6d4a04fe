{#-
    What stands under a model's name. A rebuild that was broken off between its two renames has left the name free and
    the old table beside it: it comes back first.
-#}
{% macro hudi_present(relation) -%}
    {%- set existing = load_relation(relation) -%}
    {%- set set_aside = _left_beside(relation) | selectattr('purpose', 'equalto', 'before') | list if existing is none else [] -%}
    {%- if set_aside -%}
        {%- do log(relation ~ ': a rebuild was broken off, the table it was to replace is put back', info=true) -%}
        {%- set newest = (set_aside | sort(attribute='began'))[-1].name -%}
        {%- do adapter.rename_relation(
            load_relation(relation.incorporate(path={'identifier': newest})), relation.incorporate(type='table', dbt_created=true)
        ) -%}
        {%- set existing = load_relation(relation) -%}
    {%- endif -%}
    {%- do hudi_drop_left(relation) -%}
    {%- do return(existing) -%}
{%- endmacro %}

{#-
    A table beside another one, for the length of a run. A run that is killed can leave a folder that is no table yet, and Spark
    makes no table where a folder is: each run has names of its own, which say when it began, and by `lake_` that they are a run's:
    of eight digits twice a user may make a name too, as of the days of a backup.
-#}
{% macro hudi_beside(relation, purpose) -%}
    {%- do return(api.Relation.create(
        schema=relation.schema, identifier=[relation.identifier, 'lake_' ~ purpose, _run_name()] | join('__'), type='table'
    )) -%}
{%- endmacro %}

{#- The second of its beginning, and eight digits of dbt's invocation. -#}
{% macro _run_name() -%}
    {%- do return('%08x' | format(run_started_at.timestamp() | int) ~ '_' ~ invocation_id[:8]) -%}
{%- endmacro %}

{#- Whether the run of that beginning, as its name tells it, is no longer at work: a day is longer than any takes. -#}
{% macro hudi_has_ended(began) -%}
    {%- do return(run_started_at.timestamp() - began | int(base=16) > 86400) -%}
{%- endmacro %}

{#-
    Drops the tables and views that runs have left beside a table: this one, with `of_this_run`; else those that began more than a day
    ago, for a younger one may be at work. The old table that stands aside (`before`) is no leaving while its name is free.
-#}
{% macro hudi_drop_left(relation, of_this_run=false) -%}
    {%- for left in _left_beside(relation) -%}
        {%- set is_due = left.run == _run_name() if of_this_run else hudi_has_ended(left.began) -%}
        {%- if is_due and (left.purpose != 'before' or left.is_replaced) -%}
            {%- set table = api.Relation.create(schema=relation.schema, identifier=left.name, type='table') -%}
            {%- do run_query('drop view ' ~ table) if left.is_view else hudi_drop(table) -%}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro %}

{#-
    The tables and views of which the name says that a run has made them beside a table: `name`, `purpose`, `run` and when that `began`,
    whether it `is_view`, and whether the table itself is there (`is_replaced`).
-#}
{% macro _left_beside(relation) -%}
    {%- set beside = ' in ' ~ adapter.quote(relation.schema) ~ " like '" ~ relation.identifier ~ '|' ~ relation.identifier ~ "__lake_*'" -%}
    {%- set names = run_query('show tables' ~ beside) | map(attribute='tableName') | list -%}
    {%- set pattern, found, views = '(?i)^' ~ relation.identifier ~ '__lake_([a-z]+)(?:_[0-9]+)?__(([0-9a-f]{8})_[0-9a-f]{8})$', [], [] -%}
    {%- for name in names if modules.re.search(pattern, name) -%}
        {%- if loop.first -%}
            {%- do views.extend(run_query('show views' ~ beside) | map(attribute='viewName')) -%}
        {%- endif -%}
        {%- set purpose, run, began = modules.re.findall(pattern, name)[0] -%}
        {%- do found.append({
            'name': name, 'purpose': purpose, 'run': run, 'began': began, 'is_view': name in views,
            'is_replaced': relation.identifier | lower in names | map('lower'),
        }) -%}
    {%- endfor -%}
    {%- do return(found) -%}
{%- endmacro %}
