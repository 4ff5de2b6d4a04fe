{#-
    Leaves the table as its full refresh would, in one commit: of the rows that may have changed, those that differ are
    written. Which may have changed say the upstreams' commits (`affected_keys`), or all may.

    The difference is computed once and kept as a table while it is needed (`hudi_keep`). Hudi's merge is for rows that go.
-#}
{% macro hudi_merge(target, present_columns, wanted, columns, before, upstreams) -%}
    {%- set key = key_columns(config.get('unique_key'), model.unique_id) -%}
    {%- set changes = upstream_changes(before, upstreams) -%}
    {%- if changes.whole is none and not changes.changed -%}
        {%- do log(target ~ ': nothing upstream has changed', info=true) -%}
        {%- call statement('main') -%} select 'nothing upstream has changed' as result {%- endcall -%}
        {%- do return('') -%}
    {%- endif -%}

    {%- set affected = hudi_beside(target, 'affected') -%}
    {%- set present, source, kept = target, wanted, [] -%}
    {%- if changes.whole is not none -%}
        {%- do log(target ~ ': the whole table is compared: ' ~ changes.whole, info=true) -%}
    {%- else -%}
        {%- do kept.extend(affected_keys(affected, target, hudi_types(present_columns), key, changes.changed)) -%}
        {%- set source = hudi_rows_of(wanted, affected, key) -%}
        {%- set present = hudi_rows_of(target, affected, key) -%}
    {%- endif -%}
    {%- do _hudi_write_difference(target, present_columns, present, source, key, columns, upstreams) -%}
    {%- for table in kept -%}
        {%- do hudi_drop(table) -%}
    {%- endfor -%}
{%- endmacro %}

{#-
    Inserts the rows of a select that may be a part of the table's (`hudi_part`), or replaces those that are there, as everywhere
    in dbt. The select may read the table itself: its rows are kept first.
-#}
{% macro hudi_merge_part(target, present_columns, wanted, columns, part) -%}
    {%- set key = key_columns(config.get('unique_key'), model.unique_id) -%}
    {%- do log(target ~ ': ' ~ part ~ ': its rows are upserted and none is removed, the table need not equal its full refresh', info=true) -%}
    {%- set given = hudi_beside(target, 'given') -%}
    {%- do hudi_keep(given, 'select * from ' ~ wanted) -%}
    {%- do hudi_require_keys(given, key) -%}
    {%- do _hudi_write_difference(target, present_columns, hudi_rows_of(target, given, key), given, key, columns) -%}
    {%- do hudi_drop(given) -%}
{%- endmacro %}

{#- Writes what differs between the rows that are there and those that are wanted; `upstreams` is the commit's state (`hudi_state`). -#}
{% macro _hudi_write_difference(target, present_columns, present, wanted, key, columns, upstreams=none) -%}
    {%- set difference = hudi_beside(target, 'difference') -%}
    {%- do hudi_keep(difference, hudi_difference_sql(present, wanted, key, columns)) -%}
    {%- set counts = 'select count(*) as row_count, count_if(is_to_be_removed) as removed_count from ' ~ difference -%}
    {%- set counted = run_query(counts)[0] -%}
    {%- do log(target ~ ': ' ~ counted['row_count'] ~ ' rows differ', info=true) -%}
    {#- Columns that the model has no longer keep what they hold; a table that was renamed waits for a merge (`persist_docs`) -#}
    {%- set kept_columns = present_columns | map(attribute='name') | reject('in', columns) | list -%}
    {%- set is_renamed = config.persist_column_docs() and not hudi_has_schema_of_its_name(target) -%}
    {%- if upstreams is not none -%}
        {%- do hudi_set_state(upstreams) -%}
    {%- else -%}
        {%- do hudi_reset_state() -%}    {#- a run that failed may have left it in the session -#}
    {%- endif -%}
    {%- call statement('main') -%}
        {%- if counted['removed_count'] or kept_columns or is_renamed -%}
            {{ hudi_merge_sql(target, difference, key, columns) }}
        {%- else -%}
            {{ hudi_upsert_sql(target, difference, columns) }}    {#- also of no rows: a commit for what it says of the upstreams -#}
        {%- endif %}
    {%- endcall -%}
    {%- do hudi_reset_state() -%}
    {%- do hudi_drop(difference) -%}
{%- endmacro %}

{#-
    As a condition, which Spark carries to the scans that the key comes from. A join stays above all that the relation
    computes: Spark pushes none below a select that has an expression.
-#}
{% macro hudi_rows_of(relation, keys, key) -%}
    (
        select *
        from {{ relation }}
        where ({{ hudi_quoted(key) }}) in (select {{ hudi_quoted(key) }} from {{ keys }})
    )
{%- endmacro %}
