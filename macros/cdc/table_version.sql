{#-
    Which rows a table has, without reading them: of a Hudi table its last commit and those that are on their way, of any
    other table its files.

    Instants are of the commits' request, as `_hoodie_commit_time` of a row names it. One that was requested earlier and
    completes later would be overlooked by its time alone: it is named. Time travel goes by the completion.
-#}
{% macro table_version(relation) -%}
    {%- set name = hudi_name(relation) -%}
    {%- set described = {} -%}
    {%- for row in run_query('describe table extended ' ~ relation) -%}
        {%- do described.update({row[0]: row[1]}) -%}
    {%- endfor -%}
    {%- if described.get('Provider') != 'hudi' -%}
        {%- set files -%}
            select md5(concat_ws(',', sort_array(collect_set(
                concat(_metadata.file_path, unix_millis(_metadata.file_modification_time))
            ))))
            from {{ relation }}
        {%- endset -%}
        {%- do return({'files': run_query(files).columns[0].values()[0]}) -%}
    {%- endif -%}
    {#- The timeline first: a commit that completes before the second question is seen by whoever reads after it -#}
    {%- set instants, open = [], [] -%}
    {%- for row in run_query("call show_timeline(table => '" ~ name ~ "', limit => 100)")
        if row['action'] in ['commit', 'deltacommit', 'replacecommit'] -%}
        {%- do (instants if row['state'] == 'COMPLETED' else open).append(row['instant_time']) -%}
    {%- endfor -%}
    {%- if not instants -%}
        {%- do return({'instant': '', 'completed': '', 'pending': [], 'made': ''}) -%}
    {%- endif -%}
    {%- set last, pending = instants | max, [] -%}
    {%- for instant in open | sort if instant < last -%}
        {%- do pending.append(instant) -%}
    {%- endfor -%}
    {%- set commits = run_query("call show_commits(table => '" ~ name ~ "', limit => 20)") -%}
    {%- do return({
        'instant': last,
        'completed': commits.columns['state_transition_time'].values() | max,
        'pending': pending,
        'made': described['Created Time'] ~ ' ' ~ _removed_for_good(name),
    }) -%}
{%- endmacro %}

{#- What `lake purge` and `lake erase` have removed of a silver table: no tombstone tells of such rows. -#}
{% macro _removed_for_good(name) -%}
    {%- set found = run_query(
        "call show_commit_extra_metadata(table => '" ~ name ~ "', limit => 50, metadata_key => 'lake.state')"
    ) -%}
    {%- for row in found if row['metadata_value'] -%}
        {%- set state = fromjson(row['metadata_value']) -%}
        {%- do return(local_md5(tojson([state.get('purged'), state.get('erased'), state.get('epoch')]))) -%}
    {%- endfor -%}
    {%- do return('') -%}
{%- endmacro %}
