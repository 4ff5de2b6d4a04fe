{#-
    A temporary view of what a table is to hold.
    Spark takes time travel into no view: a select with it is kept as a table below. What the configuration names must be
    in it; constraints and the time of a batch are checked as its rows are read, and comments come with its columns.
-#}
{% macro hudi_source_view(target, sql) -%}
    {%- do hudi_options() -%}    {#- also where the table is there, and a run looks at none of them -#}
    {%- set sql = hudi_statement(sql) -%}
    {%- if hudi_travels(sql) -%}
        {%- set kept = hudi_beside(target, 'wanted') -%}
        {%- do hudi_materialize(kept, sql) -%}
        {%- set sql = 'select * from ' ~ kept -%}
    {%- endif -%}
    {%- set wanted = hudi_view_of_session(target, 'wanted') -%}
    {%- do run_query('create or replace temporary view ' ~ wanted ~ ' as ' ~ sql) -%}
    {%- set columns = adapter.get_columns_in_relation(wanted) -%}
    {%- if config.get('contract').enforced -%}
        {%- do hudi_require_contract(columns) -%}
    {%- endif -%}
    {%- do hudi_require_columns(columns, model.unique_id) -%}
    {%- do hudi_require_types(columns, model.unique_id) -%}
    {%- set names, broken = columns | map(attribute='name') | list, hudi_broken_constraints() + hudi_broken_batch() -%}
    {%- if broken or config.persist_column_docs() -%}
        {%- set comments = hudi_descriptions() if config.persist_column_docs() else {} -%}
        {%- set select -%}
            (
            {%- for name in names -%}
                {{ adapter.quote(name) }} comment {{ hudi_text(comments.get(name | lower, '')) }}{{ ', ' if not loop.last }}
            {%- endfor -%}
            ) as
            select {{ _checked_columns(names, broken) }}
            from (
                {{ sql }}
            )
        {%- endset -%}
        {%- do run_query('create or replace temporary view ' ~ wanted ~ ' ' ~ select) -%}
    {%- endif -%}
    {%- do return(wanted) -%}
{%- endmacro %}

{#-
    A temporary view of a table. The embedded session is one for all threads: no two tables have a view of the same name. A schema and a
    name in a row do not tell them apart, as `shop__sales` in `x` and `sales` in `x__shop`.
-#}
{% macro hudi_view_of_session(target, purpose) -%}
    {%- set name = [target.identifier, 'lake_' ~ purpose, local_md5(target.schema ~ '.' ~ target.identifier)[:16]] | join('__') -%}
    {%- do return(api.Relation.create(identifier=name, type='view').include(database=false, schema=false)) -%}
{%- endmacro %}

{#- Drops what `hudi_source_view` has made of the same text. -#}
{% macro hudi_drop_wanted(target, wanted, sql) -%}
    {%- do run_query('drop view if exists ' ~ wanted) -%}
    {%- if hudi_travels(sql) -%}
        {%- do hudi_drop(hudi_beside(target, 'wanted')) -%}
    {%- endif -%}
{%- endmacro %}

{#-
    The columns, one of which cannot be read of a row that breaks a constraint: as a filter, the check would be carried out on
    rows that a join below is about to leave out. Not a key column where there is another: keys are compared with.
-#}
{% macro _checked_columns(names, broken) -%}
    {%- set key = key_columns(config.get('unique_key'), model.unique_id) | map('lower') | list -%}
    {%- set others = [] -%}
    {%- for name in names if name | lower not in key -%}
        {%- do others.append(name) -%}
    {%- endfor -%}
    {%- set checked = (others + names)[0] if broken else none -%}
    {%- for name in names -%}
        {%- if name == checked -%}
            case
                {%- for condition, message in broken %}
                when {{ condition }} then raise_error({{ hudi_text(message) }})
                {%- endfor %}
                else {{ adapter.quote(name) }}
            end as {{ adapter.quote(name) }}
        {%- else -%}
            {{ adapter.quote(name) }}
        {%- endif -%}
        {{ ', ' if not loop.last }}
    {%- endfor -%}
{%- endmacro %}
