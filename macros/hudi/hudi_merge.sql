{#-
    Leaves the table as its full refresh would, in one commit: of the rows that may have changed, those that differ are
    written. Which may have changed say the upstreams' commits (`affected_keys`), or all may.

    The difference is computed once and kept as a table while it is needed (`hudi_materialize`). Hudi's merge is for rows that go.
    It holds for the table as it was: where another run has written to the table meanwhile, the whole table is compared again.
-#}
{% macro hudi_merge(target, present_columns, wanted, columns, before, upstreams) -%}
    {%- set key = key_columns(config.get('unique_key'), model.unique_id) -%}
    {#- A pre_hook may have written to what the model reads, of which was asked before, or to the table -#}
    {%- set changes = upstream_changes(before.recorded, upstreams_now(upstreams) if pre_hooks else upstreams) -%}
    {%- set whole = 'it has columns that it had not, of which no row has a value' if before.get('is_widened') else changes.whole -%}
    {%- set run = {'is_done': false, 'whole': whole, 'stands_on': before.instant} -%}
    {%- if pre_hooks and run.whole is none -%}
        {%- set instant = hudi_instants(target)[0] -%}
        {%- if instant != run.stands_on -%}
            {%- do run.update({'whole': 'a pre_hook has written to it', 'stands_on': instant}) -%}
        {%- endif -%}
    {%- endif -%}
    {%- set known = hudi_types(present_columns) -%}
    {%- for column in changes.changed | map(attribute='by') | map('list') | sum(start=[]) if column | lower not in known -%}
        {%- do run.update({'whole': 'it has no column ' ~ column ~ ', by which affected_by looks for rows'}) -%}
    {%- endfor -%}
    {%- if run.whole is none and not changes.changed -%}
        {%- do log(target ~ ': nothing upstream has changed', info=true) -%}
        {%- call statement('main') -%} select 'nothing upstream has changed' as result {%- endcall -%}
        {%- do return('') -%}
    {%- endif -%}

    {%- set part = hudi_part_of_variables(before.recorded, upstreams) -%}
    {%- if not var('compare_whole', false) and part is none and _reaches_many(target, changes.applied, upstreams) and hudi_has_columns_of(target, wanted) -%}
        {%- do log(target ~ ': ' ~ changes.applied ~ ' events upstream: it is rebuilt, which takes less than to look for what they reach', info=true) -%}
        {%- do hudi_rebuild(target, target, wanted, upstreams) -%}
        {%- do return('') -%}
    {%- endif -%}

    {%- for attempt in range(3) -%}
        {%- if not run.is_done -%}
            {%- set present, source, kept = target, wanted, [] -%}
            {%- if run.whole is not none -%}
                {%- do log(target ~ ': the whole table is compared: ' ~ run.whole, info=true) -%}
            {%- else -%}
                {%- set affected = hudi_beside(target, 'affected') -%}
                {%- do kept.extend(affected_keys(affected, target, known, key, changes.changed)) -%}
                {%- do hudi_require_no_nulls(wanted, affected, key) -%}
                {%- set source = hudi_rows_of(wanted, affected, key) -%}
                {%- set present = hudi_rows_of(target, affected, key) -%}
            {%- endif -%}
            {%- do run.update(_write_difference(target, present_columns, present, source, key, columns, upstreams, run.stands_on, part)) -%}
            {%- do run.update({'whole': 'another run has written to it meanwhile'}) -%}
            {%- for table in kept -%}
                {%- do hudi_drop(table) -%}
            {%- endfor -%}
            {%- if run.repeated_count -%}
                {%- do _rebuild_without_repeated(target, wanted, key, upstreams, run.repeated_count, part) -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if not run.is_done -%}
        {%- do hudi_refuse_writers(target) -%}
    {%- endif -%}
{%- endmacro %}

{#-
    Of rows of the table that share their key a merge would write all alike, and remove all or none; of a key with a null it finds no row.
    Appends leave such, and other writers.
-#}
{% macro _rebuild_without_repeated(target, wanted, key, upstreams, repeated_count, part) -%}
    {%- set found = repeated_count ~ ' rows of the table share their unique_key (' ~ key | join(', ') ~ ') with others, or have a null in it' -%}
    {%- do hudi_require_whole(target, part, found) -%}
    {%- if not hudi_has_columns_of(target, wanted) -%}
        {{ exceptions.raise_compiler_error(
            model.unique_id ~ ': got other columns from the model than the table has, and ' ~ found ~ ', expected one row for each key: '
            ~ 'a rebuild would take its columns; dbt run --full-refresh does it; nothing was written'
        ) }}
    {%- endif -%}
    {%- do log(target ~ ': ' ~ found ~ ': it is rebuilt', info=true) -%}
    {%- do hudi_rebuild(target, target, wanted, upstreams) -%}
{%- endmacro %}

{#-
    Whether events are so many that a rebuild takes less: more than one for 200 rows of the table, and for 200 events that ever came
    to a source, which a rebuild reads whole (bench/results/dbt.md). Rows lie by a hash of their key, so that a few hundred are in every
    file, and all files are written again.
-#}
{% macro _reaches_many(target, applied, upstreams) -%}
    {%- set ever = upstreams.tables.values() | map(attribute='applied', default=0) | max -%}
    {%- if applied <= 100 or applied * 200 <= ever -%}
        {%- do return(false) -%}
    {%- endif -%}
    {%- do return(applied * 200 > run_query('select count(*) as row_count from ' ~ target)[0]['row_count']) -%}
{%- endmacro %}

{#-
    Inserts the rows of a select that may be a part of the table's (`hudi_part`), or replaces those that are there, as everywhere
    in dbt. The select may read the table itself: its rows are kept first.
-#}
{% macro hudi_merge_part(target, present_columns, wanted, columns, part) -%}
    {%- set key = key_columns(config.get('unique_key'), model.unique_id) -%}
    {%- do log(target ~ ': ' ~ part ~ ': its rows are upserted and none is removed, the table need not equal its full refresh', info=true) -%}
    {%- set given = hudi_beside(target, 'given') -%}
    {%- do hudi_materialize(given, 'select * from ' ~ wanted) -%}
    {%- do hudi_require_keys(given, key) -%}
    {%- do _write_difference(target, present_columns, hudi_rows_of(target, given, key), given, key, columns) -%}
    {%- do hudi_drop(given) -%}
{%- endmacro %}

{#-
    Writes what differs between the rows that are there and those that are wanted. `upstreams` is the commit's state (`hudi_state`),
    and `stands_on` the last commit of the rows that are there: nothing is written where there is another by now. Another that comes
    at the same moment is seen after it. Returned is whether it `is_done`, and the last commit that there is; or that the table needs a
    rebuild instead, for its own rows share keys (`repeated_count`).
-#}
{% macro _write_difference(target, present_columns, present, wanted, key, columns, upstreams=none, stands_on=none, part=none) -%}
    {%- set difference = hudi_beside(target, 'difference') -%}
    {#- Columns that the model has no longer keep what they hold -#}
    {%- set kept_columns = present_columns | map(attribute='name') | reject('in', columns) | list -%}
    {%- do hudi_materialize(difference, hudi_difference_sql(present, wanted, key, columns, hudi_types(present_columns), kept_columns)) -%}
    {%- set counts -%}
        select
            count(*) as row_count,
            count_if(_lake_is_to_be_removed) as removed_count,
            count_if(_lake_rows_in_table > 1 or (_lake_is_to_be_removed and ({{ hudi_lacks(key) }}))) as repeated_count,
            count_if(not _lake_is_to_be_removed and ({{ hudi_lacks(key) }})) as null_count,
            count_if(_lake_rows_of_key > 1 and not ({{ hudi_lacks(key) }})) as shared_count
        from {{ difference }}
    {%- endset -%}
    {%- set counted = run_query(counts)[0] -%}
    {%- do hudi_refuse_keys(key, counted['null_count'], counted['shared_count'], [difference]) -%}
    {%- if part is not none and counted['removed_count'] -%}
        {%- do hudi_refuse_variables(difference, key, part) -%}
    {%- endif -%}
    {%- if stands_on is not none and counted['repeated_count'] -%}
        {%- do hudi_drop(difference) -%}
        {%- do return({'is_done': true, 'repeated_count': counted['repeated_count']}) -%}
    {%- endif -%}
    {%- do log(target ~ ': ' ~ counted['row_count'] ~ ' rows differ', info=true) -%}
    {%- if stands_on is not none -%}
        {%- set instants = hudi_instants(target) -%}
        {%- if instants[0] != stands_on -%}
            {%- do hudi_drop(difference) -%}
            {%- do return({'is_done': false, 'stands_on': instants[0]}) -%}
        {%- endif -%}
        {%- do hudi_set_state(upstreams, stands_on) -%}
    {%- else -%}
        {%- do hudi_reset_state() -%}    {#- a run that failed may have left it in the session -#}
    {%- endif -%}
    {#- A table that was renamed waits for a merge (`persist_docs`) -#}
    {%- set is_renamed = config.persist_column_docs() and not hudi_has_schema_of_its_name(target) -%}
    {%- call statement('main') -%}
        {%- if counted['removed_count'] or is_renamed -%}
            {{ hudi_merge_sql(target, difference, key, columns + kept_columns) }}
        {%- else -%}
            {{ hudi_upsert_sql(target, difference, columns + kept_columns) }}    {#- also of no rows: a commit for what it says of the upstreams -#}
        {%- endif %}
    {%- endcall -%}
    {%- do hudi_reset_state() -%}
    {%- do hudi_drop(difference) -%}
    {%- if stands_on is not none -%}
        {%- set instants = hudi_instants(target) -%}
        {%- do return({'is_done': instants[1] == stands_on, 'stands_on': instants[0]}) -%}
    {%- endif -%}
    {%- do return({'is_done': true}) -%}
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
