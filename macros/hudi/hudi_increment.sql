{#- A run of an incremental Hudi model that has its table already. -#}
{% macro hudi_increment(existing, described, strategy, on_schema_change, wanted, before, upstreams, part) -%}
    {%- set target = existing.incorporate(type='table') -%}
    {%- set present_columns = described.columns -%}
    {%- set columns = hudi_merge_columns(target, present_columns, wanted, on_schema_change, model.unique_id) -%}
    {%- if columns is none -%}
        {%- set part = hudi_part_of_variables(before.recorded, upstreams) if part is none else part -%}
        {%- do hudi_require_whole(target, part, 'other columns (on_schema_change = sync_all_columns)') -%}
        {%- do log(target ~ ': its columns are others now, it is built anew (on_schema_change = sync_all_columns)', info=true) -%}
        {%- do hudi_rebuild(target, existing, wanted, upstreams) -%}
    {%- else -%}
        {%- if columns | reject('in', present_columns | map(attribute='name') | list) | list -%}
            {%- set before = dict(before, instant=_instant_after(target, before.instant), is_widened=true) -%}
            {%- set present_columns = adapter.get_columns_in_relation(target) -%}
        {%- endif -%}
        {%- if strategy == 'merge' and part is not none -%}
            {%- do hudi_merge_part(target, present_columns, wanted, columns, part) -%}
        {%- elif strategy == 'merge' -%}
            {%- do hudi_merge(target, present_columns, wanted, columns, before, upstreams) -%}
        {%- elif strategy == 'microbatch' -%}
            {%- do _replace_batch(target, wanted, columns) -%}
        {%- else -%}
            {%- set given = hudi_beside(target, 'given') -%}
            {#- By the table's names: an insert into Hudi knows no column that the select writes with other capitals -#}
            {%- do hudi_materialize(given, 'select ' ~ hudi_quoted(columns) ~ ' from ' ~ wanted) -%}
            {%- do hudi_require_keys(given, hudi_record_key()) -%}
            {%- call statement('main') -%}
                {%- if strategy == 'append' -%}
                    {%- do hudi_write_as(target, 'insert') -%}
                    insert into table {{ target }}
                {%- else -%}
                    {%- do hudi_write_as(target, 'upsert') -%}
                    insert overwrite table {{ target }} {{ partition_cols(label='partition') }}
                {%- endif %}
                {{ hudi_in_order(target, given, columns) }}
            {%- endcall -%}
            {%- do hudi_drop(given) -%}
        {%- endif -%}
        {%- do persist_docs(target, model) -%}
    {%- endif -%}
{%- endmacro %}

{#- The last commit of a table whose columns have become more, which is a commit: of nobody else. -#}
{% macro _instant_after(target, instant) -%}
    {%- set instants = hudi_instants(target) -%}
    {%- do return(instants[0] if instants[1] == instant else instant) -%}
{%- endmacro %}

{#- What is to be inserted, column by column as the table has them: partitions last, null where the model has none. -#}
{% macro hudi_in_order(target, wanted, columns) -%}
    {%- set values = [] -%}
    {%- for column in adapter.get_columns_in_relation(target) -%}
        {%- set name = adapter.quote(column.name) -%}
        {%- do values.append(name if column.name in columns else 'cast(null as ' ~ column.dtype ~ ') as ' ~ name) -%}
    {%- endfor -%}
    select {{ values | join(', ') }}
    from {{ wanted }}
{%- endmacro %}

{#- A batch's rows take the place of those that are there: of whole partitions. They are looked at before, and computed once. -#}
{% macro _replace_batch(target, wanted, columns) -%}
    {%- set batch = hudi_beside(target, 'batch') -%}
    {%- do hudi_materialize(batch, 'select * from ' ~ wanted) -%}
    {%- do hudi_require_keys(batch, hudi_record_key()) -%}
    {%- do _require_partitions_of_batch(target, batch) -%}
    {%- do hudi_write_as(target, 'upsert') -%}
    {%- call statement('main') -%}
        {%- if run_query('select 1 as row from ' ~ batch ~ ' limit 1') -%}
            insert overwrite table {{ target }} {{ partition_cols(label='partition') }}
            {{ hudi_in_order(target, batch, columns) }}
        {%- else -%}
            {#- No row has a partition that it could replace -#}
            delete from {{ target }}
            where {{ is_in_batch() }}
        {%- endif %}
    {%- endcall -%}
    {%- do _remove_from_other_partitions(target, batch, columns) -%}
    {%- do hudi_drop(batch) -%}
{%- endmacro %}

{#-
    Rows of the batch's time in partitions of which it has none any more: a row that has moved, or the last one that was there. No
    partition of the batch takes their place, so that they are removed by a commit of their own, where there are any.
-#}
{% macro _remove_from_other_partitions(target, batch, columns) -%}
    {%- set partitions = hudi_partitions() -%}
    {%- set query -%}
        select {{ hudi_quoted(columns) }}, true as _lake_is_to_be_removed
        from {{ target }} as present
        left anti join (select distinct {{ hudi_quoted(partitions) }} from {{ batch }}) as replaced
            on {{ hudi_equal_partitions('present', 'replaced', partitions) }}
        where {{ is_in_batch() }}
    {%- endset -%}
    {%- if run_query('select 1 as row from (' ~ query ~ ') limit 1') -%}
        {%- set removed = hudi_beside(target, 'removed') -%}
        {%- do hudi_materialize(removed, query) -%}
        {%- do run_query(hudi_merge_sql(target, removed, key_columns(config.get('unique_key'), model.unique_id), columns)) -%}
        {%- do hudi_drop(removed) -%}
    {%- endif -%}
{%- endmacro %}

{#- The partitions that a batch replaces may hold no rows of another one, nor of none: without a time. -#}
{% macro _require_partitions_of_batch(target, batch) -%}
    {%- set partitions = hudi_partitions() -%}
    {%- set others -%}
        select {{ hudi_quoted(partitions) }}
        from {{ target }} as present
        left semi join (select distinct {{ hudi_quoted(partitions) }} from {{ batch }}) as replaced
            on {{ hudi_equal_partitions('present', 'replaced', partitions) }}
        where not coalesce({{ is_in_batch() }}, false)
        limit 1
    {%- endset -%}
    {%- for row in run_query(others) -%}
        {{ exceptions.raise_compiler_error(
            model.unique_id ~ ": got partition_by " ~ partitions | join(', ') ~ ", of which " ~ row.values() | join(', ')
            ~ " has rows of other batches too, or without a time, expected columns with other values in each batch (batch_size = "
            ~ config.get('batch_size') ~ "): a batch replaces whole partitions"
        ) }}
    {%- endfor -%}
{%- endmacro %}

{#- Whether a row has a time of the batch of a microbatch; none outside of one. -#}
{% macro is_in_batch() -%}
    {%- do return(adapter.dispatch('is_in_batch')()) -%}
{%- endmacro %}

{% macro default__is_in_batch() -%}
    {%- if not model.batch -%}
        {%- do return(none) -%}
    {%- endif -%}
    {%- set event_time = adapter.quote(config.get('event_time')) -%}
    {%- do return(
        event_time ~ " >= timestamp '" ~ model.batch.event_time_start ~ "' and " ~ event_time ~ " < timestamp '" ~ model.batch.event_time_end ~ "'"
    ) -%}
{%- endmacro %}

{#-
    When a row is none of the batch that the model's select gives it in, and what is said then. The batch of its own time would take its
    place, and one without a time any batch that has such rows.
-#}
{% macro hudi_broken_batch() -%}
    {%- set condition = is_in_batch() -%}
    {%- if condition is none -%}
        {%- do return([]) -%}
    {%- endif -%}
    {%- set event_time = config.get('event_time') -%}
    {%- do return([(
        'not coalesce(' ~ condition ~ ', false)',
        model.unique_id ~ ": got a row whose " ~ event_time ~ " is null, or no time of its batch (" ~ model.batch.event_time_start ~ " to "
        ~ model.batch.event_time_end ~ "), expected one within: the batch of that time would take its place; leave the row out, or make "
        ~ event_time ~ " of the event_time of what the model reads; nothing of the batch was written"
    )]) -%}
{%- endmacro %}
