{#-
    What has changed upstream since a model's last commit: `whole`, why its whole table has to be compared, or none; `changed`, the
    entries of `affected_by` whose source has new commits; and `applied`, how many events have come, also where all is compared.

    A source may have changed while it was read: what the model has of a row may be what it was for that moment only. So a row
    counts also as it was behind each commit from the version that was recorded to the model's own commit.
-#}
{% macro upstream_changes(before, now) -%}
    {%- set applied = _applied(before, now) -%}
    {%- set whole = _why_whole(before, now) -%}
    {%- if whole is not none -%}
        {%- do return({'whole': whole, 'changed': [], 'applied': applied}) -%}
    {%- endif -%}
    {%- set entries, changed = affected_by(), [] -%}
    {%- for relation, version in now.tables.items() if version != before.tables[relation] -%}
        {%- set since, meanwhile = before.tables[relation], [] -%}
        {%- set own = entries | selectattr('relation', 'equalto', relation) | list -%}
        {%- if not own -%}
            {%- do return({'whole': relation ~ ' has changed, and affected_by does not name it', 'changed': [], 'applied': applied}) -%}
        {%- elif version.made != since.made or not since.instant -%}
            {%- do return({'whole': 'rows of ' ~ relation ~ ' were removed for good, or it was made anew', 'changed': [], 'applied': applied}) -%}
        {%- elif _has_other_types(since.get('types') or {}, version.types) -%}
            {%- do return({'whole': 'columns of ' ~ relation ~ ' have other types', 'changed': [], 'applied': applied}) -%}
        {%- endif -%}
        {%- set commits = hudi_commits(relation) -%}
        {%- if _is_gone(relation, since.instant, commits) -%}
            {%- do return({'whole': 'commits of ' ~ relation ~ ' are gone', 'changed': [], 'applied': applied}) -%}
        {%- elif _was_removed_from(relation, since, commits) -%}
            {%- do return({'whole': 'another writer than ingest has removed rows of ' ~ relation, 'changed': [], 'applied': applied}) -%}
        {%- elif own | selectattr('reads_before') | list -%}
            {%- if not _is_retained(relation, since) -%}
                {%- do return({'whole': relation ~ ' as it was at ' ~ since.completed ~ ' is cleaned away', 'changed': [], 'applied': applied}) -%}
            {%- endif -%}
            {%- set completed = hudi_completions(commits) -%}
            {%- if completed | min > since.completed -%}
                {%- do return({
                    'whole': relation ~ ' may have had commits while the last run read it that are archived', 'changed': [], 'applied': applied
                }) -%}
            {%- endif -%}
            {%- do meanwhile.extend(completed | select('gt', since.completed) | select('le', before.completed)) -%}
            {%- if meanwhile | length > 5 -%}
                {%- do return({
                    'whole': relation ~ ' had ' ~ meanwhile | length ~ ' commits while the last run read it',
                    'changed': [],
                    'applied': applied,
                }) -%}
            {%- endif -%}
        {%- endif -%}
        {%- for entry in own -%}
            {%- do changed.append(dict(entry, since=since, seen=[since.completed] + meanwhile)) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- do return({'whole': none, 'changed': changed, 'applied': applied}) -%}
{%- endmacro %}

{#- How many events have come to the sources of a model since its last commit, as far as both commits say it. -#}
{% macro _applied(before, now) -%}
    {%- set applied = [] -%}
    {%- for relation, version in now.tables.items() -%}
        {%- set since = ((before or {}).get('tables') or {}).get(relation) or {} -%}
        {%- if version.instant and since.instant and version.made == since.made -%}
            {%- do applied.append(version.applied - since.applied) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do return(applied | sum) -%}
{%- endmacro %}

{#- Whether a column was widened: what a model makes of rows that have not changed may be other values, `1.0` for `1`. -#}
{% macro _has_other_types(before, now) -%}
    {%- for name, dtype in before.items() if now.get(name, dtype) != dtype -%}
        {%- do return(true) -%}
    {%- endfor -%}
    {%- do return(false) -%}
{%- endmacro %}

{#-
    Whether a commit that was there is none of the table's any more, active or archived: it was rolled back, or the table was made anew,
    truncated, or restored from a copy. Rows went, and no commit says which.
-#}
{% macro _is_gone(relation, instant, commits) -%}
    {%- if instant in commits | map(attribute='commit_time') -%}
        {%- do return(false) -%}
    {%- endif -%}
    {%- set archived = run_query(
        "call show_archived_commits(table => '" ~ hudi_name(relation) ~ "', limit => 1, start_ts => '" ~ (instant | int - 1)
        ~ "', end_ts => '" ~ instant ~ "')"
    ) -%}
    {%- do return(archived | length == 0) -%}
{%- endmacro %}

{#-
    Whether another writer than ingest has removed rows since a version: no tombstone tells of them. Of a commit that replaces files,
    as `insert overwrite` makes, nothing says how many rows these had.
-#}
{% macro _was_removed_from(relation, since, commits) -%}
    {%- set removing = [] -%}
    {%- for file in run_query("call show_commits_metadata(table => '" ~ hudi_name(relation) ~ "', limit => 100000)") if file['num_deletes'] -%}
        {%- do removing.append(file['commit_time']) -%}
    {%- endfor -%}
    {%- for commit in hudi_commits_of_rows(commits)
        if (commit['commit_time'] > since.instant or commit['commit_time'] in since.pending)
        and (commit['action'] == 'replacecommit' or commit['commit_time'] in removing) -%}
        {%- if hudi_kept_in_commit(relation, 'lake.state', [commit]) is none -%}
            {%- do return(true) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do return(false) -%}
{%- endmacro %}

{#- Whether a table can be read as it was: each clean names the earliest commit that it left. One by file versions left the last one alone. -#}
{% macro _is_retained(relation, version) -%}
    {%- for row in run_query("call show_cleans(table => '" ~ hudi_name(relation) ~ "', limit => 100)") -%}
        {%- if version.instant < (row['earliest_commit_to_retain'] or row['last_completed_commit_timestamp'] or '') -%}
            {%- do return(false) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do return(true) -%}
{%- endmacro %}

{#- Why a model is compared whole, whatever has changed upstream; none for nothing. -#}
{% macro _why_whole(before, now) -%}
    {%- if var('compare_whole', false) -%}
        {%- do return('the variable compare_whole says so') -%}
    {%- elif before is none -%}
        {%- do return('its last commit does not say from what it was built') -%}
    {%- elif before.moment != '' or now.moment != '' -%}
        {%- do return('its select is non-deterministic') -%}
    {%- elif before.text != now.text -%}
        {%- do return('the model or a view that it reads has another text') -%}
    {%- elif before.settings != now.settings -%}
        {%- do return('its affected_by, unique_key, constraints or settings are others') -%}
    {%- elif now.unnamed -%}
        {%- do return('it reads what is no table of the catalog') -%}
    {%- elif before.tables.keys() | sort != now.tables.keys() | sort -%}
        {%- do return('it reads other tables') -%}
    {%- endif -%}
    {%- do return(none) -%}
{%- endmacro %}
