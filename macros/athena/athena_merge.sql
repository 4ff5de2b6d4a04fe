{#- Brings an Iceberg table to what a model's select gives, by one statement, and ends the materialization. -#}
{% macro athena_merge(existing, sql, on_schema_change, part, given=[]) -%}
    {%- set target = this.incorporate(type='table') -%}
    {{ run_hooks(pre_hooks) }}
    {%- set key = key_columns(config.get('unique_key'), model.unique_id) -%}
    {%- set wanted = get_column_schema_from_query(sql) -%}
    {%- do athena_require_columns(wanted, key) -%}
    {%- do athena_require_partitions(existing) -%}
    {%- set columns = athena_merge_columns(existing, sql, wanted, on_schema_change) -%}
    {%- set merge = athena_merge_sql(existing, athena_rows(sql, wanted, read=columns), key, columns, part, given) -%}
    {%- if athena_partitioning() -%}
        {%- set done = adapter.run_query_with_partitions_limit_catching(merge) -%}
        {%- if done == 'TOO_MANY_OPEN_PARTITIONS' -%}
            {%- do athena_replace_if_whole(existing, sql, wanted, part, given) -%}
        {%- endif -%}
        {#- dbt-athena reads the rows and bytes of a run from its main statement -#}
        {%- set merge = "select '" ~ done ~ "'" -%}
    {%- endif -%}
    {%- call statement('main') -%} {{ merge }} {%- endcall -%}
    {{ run_hooks(post_hooks) }}
    {%- if config.get('lf_tags_config') is not none -%}
        {%- do adapter.add_lf_tags(target, config.get('lf_tags_config')) -%}
    {%- endif -%}
    {%- if config.get('lf_grants') is not none -%}
        {%- do adapter.apply_lf_grants(target, config.get('lf_grants')) -%}
    {%- endif -%}
    {%- do persist_docs(target, model) -%}
    {#- Each commit of Iceberg is a version of the table in Glue, which keeps a limited number -#}
    {%- do adapter.expire_glue_table_versions(target, config.get('versions_to_keep', 4), false) -%}
    {%- do return({'relations': [target]}) -%}
{%- endmacro %}

{#- A merge that reaches more partitions than one statement writes: a select of all rows makes the table anew, a part of them cannot. -#}
{% macro athena_replace_if_whole(existing, sql, wanted, part, given) -%}
    {%- if part is not none or given or is_in_batch() is not none -%}
        {{ exceptions.raise_compiler_error(
            model.unique_id ~ ": got rows of more partitions than one statement of Athena writes (100), and a select that may be a part of the "
            ~ "table's rows; expected fewer: select a shorter time, partition by less, such as month(...), or run it with --full-refresh, which "
            ~ "writes in parts; nothing was written"
        ) }}
    {%- endif -%}
    {%- set names = wanted | map(attribute='name') | map('lower') | list -%}
    {%- set kept = adapter.get_columns_in_relation(existing) | map(attribute='name') | map('lower') | reject('in', names) | list -%}
    {%- if kept -%}
        {{ exceptions.raise_compiler_error(
            model.unique_id ~ ": got rows of more partitions than one statement of Athena writes (100), and a table with columns that its select "
            ~ "has no longer (" ~ kept | join(', ') ~ "); expected fewer: partition by less, such as month(...), or run it with --full-refresh, "
            ~ "which writes in parts and drops these columns; nothing was written"
        ) }}
    {%- endif -%}
    {%- do log(existing ~ ': it is made anew, for the merge reaches more partitions than one statement writes', info=true) -%}
    {%- do athena_replace_in_parts(existing, sql) -%}
{%- endmacro %}

{#-
    The rows of the select and of the table, by their keys: what one has and the other has not, or has otherwise, is all that is
    written. Values are compared with nulls as values. A select without a row of a key deletes it, unless the select may be a `part`,
    and fails where `given` variables may have left it out.
-#}
{% macro athena_merge_sql(target, rows, key, columns, part, given=[]) -%}
    {%- set names, own = hudi_quoted(columns), 'row(' ~ hudi_quoted(columns) ~ ')' -%}
    {%- set key_in_lower_case, in_batch = key | map('lower') | list, is_in_batch() -%}
    merge into {{ target }} as present
    using (
        select
            {{ names }},
            case
                when {{ hudi_lacks(key) }} then {{ athena_raise("'" ~ model.unique_id ~ ": got a row with a null in unique_key (" ~ key | join(', ')
                    ~ "), expected one row for each key; nothing was written'", "'new'") }}
                when _lake_wanted_count > 1 then {{ athena_raise(_shared_key_text(key, '_lake_wanted_count'), "'new'") }}
                when _lake_present_count > 1 then {{ athena_raise(_shared_key_text(
                    key, '_lake_present_count', 'its table has', 'one: the table was made with another unique_key, and --full-refresh makes it anew'
                ), "'new'") }}
                when _lake_wanted_count = 0 then {{ athena_raise(_given_text(given), "'gone'") if given else "'gone'" }}
                else 'new'
            end as _lake_change
        from (
            select
                {%- for column in columns %}
                {%- set name = adapter.quote(column) %}
                {{ name if column | lower in key_in_lower_case else 'arbitrary(' ~ name ~ ') filter (where _lake_is_wanted) as ' ~ name }},
                {%- endfor %}
                count_if(_lake_is_wanted) as _lake_wanted_count,
                count_if(not _lake_is_wanted) as _lake_present_count,
                arbitrary({{ own }}) filter (where _lake_is_wanted) as _lake_wanted_row,
                arbitrary({{ own }}) filter (where not _lake_is_wanted) as _lake_present_row
            from (
                select true as _lake_is_wanted, {{ names }}
                from (
                    {{ rows }}
                )
                union all
                select false as _lake_is_wanted, {{ names }}
                from {{ target }}
                {%- if in_batch is not none %}
                where {{ in_batch }}
                {%- endif %}
            )
            group by {{ hudi_quoted(key) }}
        )
        where {{ '_lake_wanted_count > 0 and ' if part is not none and in_batch is none }}(
            _lake_wanted_count <> 1 or _lake_present_count <> 1 or _lake_wanted_row is distinct from _lake_present_row
        )
    ) as changed
        on {{ hudi_equal('present', 'changed', key) }}
    when matched and changed._lake_change = 'gone' then delete
    when matched and changed._lake_change = 'new' then update set
        {%- for column in columns %}
        {{ adapter.quote(column) }} = changed.{{ adapter.quote(column) }}{{ ',' if not loop.last }}
        {%- endfor %}
    when not matched and changed._lake_change = 'new' then insert ({{ names }})
        values ({% for column in columns %}changed.{{ adapter.quote(column) }}{{ ', ' if not loop.last }}{% endfor %})
{%- endmacro %}

{#- `case` is evaluated behind `where`: a row that stays is not refused. -#}
{% macro _given_text(given) -%}
    '{{ model.unique_id }}: got a row that its select gives no more, expected all rows of the table: its text asks for --vars
    {{- ' ' ~ given | join(', ') | replace("'", "''") }}; run it without them, with --full-refresh, or ask is_incremental() in its text,
    {{- ' which keeps the row; nothing was written' }}'
{%- endmacro %}

{% macro athena__is_in_batch() -%}
    {%- set begin, end = config.get('__dbt_internal_microbatch_event_time_start'), config.get('__dbt_internal_microbatch_event_time_end') -%}
    {%- if begin and end -%}
        {%- set event_time = 'cast(' ~ adapter.quote(config.get('event_time')) ~ ' as timestamp)' -%}
        {%- set form = '%Y-%m-%d %H:%M:%S' -%}
        {%- do return(event_time ~ " >= timestamp '" ~ begin.strftime(form) ~ "' and " ~ event_time ~ " < timestamp '" ~ end.strftime(form) ~ "'") -%}
    {%- endif -%}
    {%- do return(none) -%}
{%- endmacro %}

{#- The columns that are merged; new ones are added to the table where `on_schema_change` says so. -#}
{% macro athena_merge_columns(existing, sql, wanted, on_schema_change) -%}
    {%- set present = adapter.get_columns_in_relation(existing) -%}
    {%- set present_names = present | map(attribute='name') | map('lower') | list -%}
    {%- set wanted_names = wanted | map(attribute='name') | map('lower') | list -%}
    {%- set added, gone = [], present_names | reject('in', wanted_names) | list -%}
    {%- for column in wanted if column.name | lower not in present_names -%}
        {%- do added.append(column) -%}
    {%- endfor -%}
    {%- set changed = athena_changed_types(existing, sql, wanted_names | select('in', present_names) | list) -%}
    {%- do refuse_other_columns(model.unique_id, on_schema_change, added | map(attribute='name') | list, gone, changed) -%}
    {%- if changed -%}
        {{ exceptions.raise_compiler_error(
            model.unique_id ~ ": got columns " ~ changed | join(', ') ~ " from the model, expected the table's types, which a merge keeps;"
            ~ " run it once with --full-refresh"
        ) }}
    {%- endif -%}
    {%- if added and on_schema_change in ['append_new_columns', 'sync_all_columns'] -%}
        {%- do alter_relation_add_columns(existing, athena_typed(added), 'iceberg') -%}
        {%- set present_names = present_names + added | map(attribute='name') | map('lower') | list -%}
    {%- endif -%}
    {%- if gone and on_schema_change == 'sync_all_columns' -%}
        {%- for column in present if column.name | lower in gone -%}
            {%- do alter_relation_drop_columns(existing, [column]) -%}
        {%- endfor -%}
    {%- endif -%}
    {%- do return(wanted_names | select('in', present_names) | list) -%}
{%- endmacro %}
