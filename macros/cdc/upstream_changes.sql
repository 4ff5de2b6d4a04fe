{#-
    What has changed upstream since a model's last commit: `whole`, why its whole table has to be compared, or none; and
    `changed`, the entries of `affected_by` whose source has new commits.

    A source may have changed while it was read: what the model has of a row may be what it was for that moment only. So a row
    counts also as it was behind each commit from the version that was told to the model's own commit.
-#}
{% macro upstream_changes(before, now) -%}
    {%- if before is none -%}
        {%- do return({'whole': 'its last commit does not say from what it was built', 'changed': []}) -%}
    {%- endif -%}
    {%- if before.text != now.text -%}
        {%- do return({'whole': 'the model or a view that it reads has another text', 'changed': []}) -%}
    {%- endif -%}
    {%- if before.moment != now.moment -%}
        {%- do return({'whole': 'it asks for the time of the run, or for chance', 'changed': []}) -%}
    {%- endif -%}
    {%- if before.tables.keys() | sort != now.tables.keys() | sort -%}
        {%- do return({'whole': 'it reads other tables', 'changed': []}) -%}
    {%- endif -%}
    {%- set entries = affected_by() -%}
    {%- set changed = [] -%}
    {%- for relation, version in now.tables.items() if version != before.tables[relation] -%}
        {%- set since, meanwhile = before.tables[relation], [] -%}
        {%- set own = entries | selectattr('relation', 'equalto', relation) | list -%}
        {%- if not own -%}
            {%- do return({'whole': relation ~ ' has changed, and affected_by does not name it', 'changed': []}) -%}
        {%- elif version.made != since.made or not since.instant -%}
            {%- do return({'whole': 'rows of ' ~ relation ~ ' were removed for good, or it was made anew', 'changed': []}) -%}
        {%- elif own | selectattr('reads_before') | list -%}
            {%- if not _is_retained(relation, since) -%}
                {%- do return({'whole': relation ~ ' as it was at ' ~ since.completed ~ ' is cleaned away', 'changed': []}) -%}
            {%- endif -%}
            {%- do meanwhile.extend(completions(relation) | select('gt', since.completed) | select('le', before.completed)) -%}
            {%- if meanwhile | length > 5 -%}
                {%- do return({
                    'whole': relation ~ ' had ' ~ meanwhile | length ~ ' commits while the last run read it', 'changed': []
                }) -%}
            {%- endif -%}
        {%- endif -%}
        {%- for entry in own -%}
            {%- do changed.append(dict(entry, since=since, seen=[since.completed] + meanwhile)) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- do return({'whole': none, 'changed': changed}) -%}
{%- endmacro %}

{% macro _is_retained(relation, version) -%}
    {%- for row in run_query("call show_cleans(table => '" ~ hudi_name(relation) ~ "', limit => 1)") -%}
        {%- do return(version.instant >= (row['earliest_commit_to_retain'] or '')) -%}
    {%- endfor -%}
    {%- do return(true) -%}
{%- endmacro %}
