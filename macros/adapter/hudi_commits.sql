{#- The commits of a Hudi table's active timeline, the last one first: `commit_time`, `state_transition_time`, `action` and counts. -#}
{% macro hudi_commits(relation) -%}
    {%- do return(run_query("call show_commits(table => '" ~ hudi_name(relation) ~ "', limit => 100000)").rows) -%}
{%- endmacro %}

{#-
    When one of them was completed. Of a table below version 8 that is the time of the commit's file, which S3 tells in whole seconds:
    before the request of a commit that ends within its second. Time travel there goes by the request, and to such a time it lacks the commit.
-#}
{% macro hudi_completed(commit) -%}
    {%- do return([commit['commit_time'], commit['state_transition_time']] | max) -%}
{%- endmacro %}

{% macro hudi_completions(commits) -%}
    {%- set completed = [] -%}
    {%- for commit in commits -%}
        {%- do completed.append(hudi_completed(commit)) -%}
    {%- endfor -%}
    {%- do return(completed) -%}
{%- endmacro %}

{#- Of commits, the ones that may have written rows: of a merge-on-read table, a `commit` is a compaction. -#}
{% macro hudi_commits_of_rows(commits) -%}
    {%- set is_merge_on_read = 'deltacommit' in commits | map(attribute='action') -%}
    {%- do return(commits | rejectattr('action', 'equalto', 'commit' if is_merge_on_read else 'compaction') | list) -%}
{%- endmacro %}

{#- When these were requested, the last one first; then empty texts, for `truncate table` leaves a table without a commit. -#}
{% macro hudi_instants(relation) -%}
    {%- do return(hudi_commits_of_rows(hudi_commits(relation)) | map(attribute='commit_time') | list + ['', '']) -%}
{%- endmacro %}

{#-
    Refuses to write to a table whose last commit, as it was requested, is later than now: Hudi orders commits by the clock of who makes
    them, so that nobody would see the rows of another one. What seems to be ahead by UTC is asked of the Java that runs Spark, which
    may have another time zone: instants are of that.
-#}
{% macro hudi_require_past(relation, instant) -%}
    {%- set now = modules.datetime.datetime.now(modules.pytz.utc).strftime('%Y%m%d%H%M%S') -%}
    {%- if instant and instant[:14] > now -%}
        {%- set clock = run_query("select reflect('java.time.LocalDateTime', 'now') as now").rows[0]['now'] -%}
        {%- set now = modules.re.sub('[^0-9]', '', clock)[:14] -%}
        {%- if instant[:14] > now -%}
            {{ exceptions.raise_compiler_error(
                hudi_name(relation) ~ ": got a last commit of " ~ instant ~ ", and " ~ now ~ " by the clock of the machine that runs Spark,"
                ~ " expected one that has not gone back, by which commits are ordered: set it, by NTP. If the commit was made by a"
                ~ " clock that was ahead, wait until that time, or drop the table and build it anew"
            ) }}
        {%- endif -%}
    {%- endif -%}
{%- endmacro %}

{#-
    What the last of these commits has kept under a name (`value`), and when it was `completed`; none where it has kept nothing.
    Without an instant, Hudi looks at the last commit of all.
-#}
{% macro hudi_kept_in_commit(relation, name, commits) -%}
    {%- for commit in commits[:1] -%}
        {%- set found = run_query(
            "call show_commit_extra_metadata(table => '" ~ hudi_name(relation) ~ "', instant_time => '" ~ commit['commit_time']
            ~ "', metadata_key => '" ~ name ~ "')"
        ) -%}
        {%- for row in found if row['metadata_value'] -%}
            {%- do return({'value': row['metadata_value'], 'completed': hudi_completed(commit)}) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- do return(none) -%}
{%- endmacro %}
