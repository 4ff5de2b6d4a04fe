{#-
    Keeps the keys of a model that changed rows of its sources reach, as a table. A source's row counts as it is now and,
    where more than its key is looked at, as it was before: an aggregate has to see the group that a row has left.
    Returns the tables to be dropped in the end.
-#}
{% macro affected_keys(keys, target, types, key, entries) -%}
    {%- set selects, kept = [], [keys] -%}
    {%- for relation, own in entries | groupby('relation') -%}
        {%- set columns = [] -%}
        {%- for entry in own -%}
            {%- do columns.extend(entry.columns) -%}
        {%- endfor -%}
        {%- set changed = _changed_rows(
            relation, own[0].since, own[0].seen, columns | unique, own | selectattr('reads_before') | list,
            hudi_beside(target, 'now_' ~ loop.index), hudi_beside(target, 'old_' ~ loop.index)
        ) -%}
        {%- do kept.extend(changed) -%}
        {%- for entry in own -%}
            {%- do selects.append(_reached_keys(target, key, entry, _changed_values(entry, changed, types))) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- do hudi_materialize(keys, selects | join(' union ')) -%}
    {%- do return(kept) -%}
{%- endmacro %}

{#-
    The rows of a source that have changed, as tables: each source is read once, whatever looks at it. The first has the
    rows as they are; the second, where one is wanted, as they were whenever the model may have seen them.
-#}
{% macro _changed_rows(relation, since, seen, columns, reads_before, now, old) -%}
    {%- set read = hudi_quoted(['_hoodie_record_key'] + columns | list) -%}
    {%- set query -%}
        select {{ read }}
        from {{ relation }}
        where
            _hoodie_commit_time > '{{ since.instant }}'
            {%- if since.pending %}
            or _hoodie_commit_time in ('{{ since.pending | join("', '") }}')
            {%- endif %}
    {%- endset -%}
    {%- do hudi_materialize(now, query) -%}
    {%- if not reads_before -%}
        {%- do return([now]) -%}
    {%- endif -%}
    {%- set former = [] -%}
    {%- for completed in seen -%}
        {%- do former.append(
            'select ' ~ read ~ ' from ' ~ as_of(relation, completed)
            ~ ' where _hoodie_record_key in (select _hoodie_record_key from ' ~ now ~ ')'
        ) -%}
    {%- endfor -%}
    {%- do hudi_materialize(old, former | join(' union all ')) -%}
    {%- do return([now, old]) -%}
{%- endmacro %}

{#- Rows without a value are reached by a row without one: they are a window's partition too. -#}
{% macro _reached_keys(target, key, entry, values) -%}
    {%- if entry.by.keys() | map('lower') | sort == key | map('lower') | sort -%}
    select {{ hudi_quoted(key) }}
    from ({{ values }})
    {%- else -%}
    select {% for column in key %}present.{{ adapter.quote(column) }}{{ ', ' if not loop.last }}{% endfor %}
    from {{ target }} as present
    left semi join ({{ values }}) as changed
        on {{ hudi_equal('present', 'changed', entry.by, '<=>') }}
    {%- endif %}
{%- endmacro %}

{#-
    What the rows that are reached have in the entry's columns. Of a row that is looked at as it was, each version is one row
    of the two tables: where the entry names what is read, those are left out that are there in all, with equal values.
-#}
{% macro _changed_values(entry, changed, types) -%}
    {%- set values = [] -%}
    {%- for column, source_column in entry.by.items() -%}
        {%- do values.append(
            'cast(' ~ adapter.quote(source_column) ~ ' as ' ~ types[column | lower] ~ ') as ' ~ adapter.quote(column)
        ) -%}
    {%- endfor -%}
    {%- set changed_rows -%}
        {%- for table in changed[:2 if entry.reads_before else 1] %}
        select * from {{ table }}{{ ' union all' if not loop.last }}
        {%- endfor %}
    {%- endset -%}
    select {{ values | join(', ') }}
    from ({{ changed_rows }})
    {%- if entry.reads and entry.reads_before %}
    where _hoodie_record_key in (
        select _hoodie_record_key
        from ({{ changed_rows }})
        group by _hoodie_record_key
        having count(*) < {{ entry.seen | length + 1 }} or count(distinct struct({{ hudi_quoted(entry.columns | unique) }})) > 1
    )
    {%- endif -%}
{%- endmacro %}
