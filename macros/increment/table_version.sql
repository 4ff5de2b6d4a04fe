{#-
    Which rows a table has, without reading them: of a Hudi table its last commit and those that are on their way, of a table of
    files these. A table of another kind has another version in each run, and a view has none: it is the tables behind it.
    A seed is small, and each `dbt build` writes it again: its rows are its version.
    `before` is a version that was recorded earlier: of a table that has not changed it still holds. Of one that is a Hudi table still
    (`is_hudi`) the catalog is asked no more.

    Instants are of the commits' request, as `_hoodie_commit_time` of a row names it. One that was requested earlier and
    completes later would be overlooked by its time alone: it is named. Time travel goes by the completion.
-#}
{% macro table_version(relation, before=none, is_hudi=false) -%}
    {%- set name = hudi_name(relation) -%}
    {%- set described = none if is_hudi else hudi_described(relation) -%}
    {%- if described is not none -%}
        {%- if described.details.get('Type') == 'VIEW' -%}
            {%- do return(none) -%}
        {%- elif _is_seed(name) -%}
            {%- do return({'rows': _rows_of(relation)}) -%}
        {%- elif described.details.get('Provider') in ['parquet', 'orc', 'csv', 'json', 'text', 'avro'] -%}
            {%- do return({'files': _files_of(relation)}) -%}
        {%- elif described.details.get('Provider') != 'hudi' -%}
            {%- do return({'unknown': run_started_at.isoformat()}) -%}
        {%- endif -%}
    {%- endif -%}
    {#- The timeline first: a commit that completes before the next question is seen by whoever reads after it -#}
    {%- set timeline = _timeline(relation) -%}
    {%- if not timeline.completed -%}
        {%- do return({'instant': '', 'completed': '', 'pending': [], 'made': '', 'applied': 0, 'types': {}}) -%}
    {%- endif -%}
    {%- set last, pending = timeline.completed | max, [] -%}
    {%- for instant in timeline.open | sort if instant < last -%}
        {%- do pending.append(instant) -%}
    {%- endfor -%}
    {%- if before is not none and before.instant == last and before.pending == pending -%}
        {%- do return(before) -%}
    {%- endif -%}
    {%- set described, types = described or hudi_described(relation), {} -%}
    {%- for column in described.columns -%}
        {%- do types.update({column.name: column.dtype}) -%}
    {%- endfor -%}
    {%- set commits = hudi_commits(relation) -%}
    {%- set landed = _landed(relation, commits) -%}
    {%- do return({
        'instant': last,
        'completed': hudi_completions(commits) | max,
        'pending': pending,
        'made': described.details['Created Time'] ~ ' ' ~ landed.removed,
        'applied': landed.applied,
        'types': types,
    }) -%}
{%- endmacro %}

{% macro _timeline(relation) -%}
    {%- set completed, open = [], [] -%}
    {%- for row in run_query("call show_timeline(table => '" ~ hudi_name(relation) ~ "', limit => 100000)")
        if row['action'] in ['commit', 'deltacommit', 'replacecommit'] -%}
        {%- do (completed if row['state'] == 'COMPLETED' else open).append(row['instant_time']) -%}
    {%- endfor -%}
    {%- do return({'completed': completed, 'open': open}) -%}
{%- endmacro %}

{% macro _is_seed(name) -%}
    {%- for node in graph.nodes.values() if node.resource_type == 'seed' and hudi_name(node.relation_name) | lower == name | lower -%}
        {%- do return(true) -%}
    {%- endfor -%}
    {%- do return(false) -%}
{%- endmacro %}

{#- Whatever their order; of other types they are others. -#}
{% macro _rows_of(relation) -%}
    {%- set row = row_as_json('*') ~ ' || typeof(struct(*))' -%}
    {%- set rows -%}
        select md5(concat_ws(',', sort_array(collect_list(md5({{ row }})))))
        from {{ relation }}
    {%- endset -%}
    {%- do return(run_query(rows).columns[0].values()[0]) -%}
{%- endmacro %}

{% macro _files_of(relation) -%}
    {%- set files -%}
        select md5(concat_ws(',', sort_array(collect_set(
            concat(_metadata.file_path, unix_millis(_metadata.file_modification_time))
        ))))
        from {{ relation }}
    {%- endset -%}
    {%- do return(run_query(files).columns[0].values()[0]) -%}
{%- endmacro %}

{#-
    What ingest says of a silver table: what `lake purge` and `lake erase` have `removed`, of which no tombstone tells, and how many
    events it has `applied` in all. The newest commit that says it counts: a compaction says nothing. Without an instant, Hudi
    looks at the last commit alone. Of other writers' tables no commit says anything.
-#}
{% macro _landed(relation, commits) -%}
    {%- set landed = [] -%}
    {%- for source in graph.sources.values() if hudi_name(source.relation_name) | lower == hudi_name(relation) | lower -%}
        {%- do landed.append(is_landed_by_lake(source)) -%}
    {%- endfor -%}
    {%- for commit in commits if true in landed -%}
        {%- set found = run_query(
            "call show_commit_extra_metadata(table => '" ~ hudi_name(relation) ~ "', instant_time => '" ~ commit['commit_time']
            ~ "', metadata_key => 'lake.state')"
        ) -%}
        {%- for row in found if row['metadata_value'] -%}
            {%- set state = fromjson(row['metadata_value']) -%}
            {%- do return({
                'removed': local_md5(tojson([state.get('removals', 0), state.get('epoch')])),
                'applied': (state.get('totals') or {}).get('applied', 0),
            }) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- do return({'removed': '', 'applied': 0}) -%}
{%- endmacro %}
