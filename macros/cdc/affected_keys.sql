{#-
    Keeps the keys of a model that changed rows of its sources reach, as a cached view. A source's row counts as it is now
    and, where more than its key is looked at, as it was before: an aggregate has to see the group that a row has left.
    Returns the views to be dropped in the end.
-#}
{% macro affected_keys(keys, target, key, entries) -%}
    {%- set types = {} -%}
    {%- for column in adapter.get_columns_in_relation(target) -%}
        {%- do types.update({column.name | lower: column.dtype}) -%}
    {%- endfor -%}
    {%- set selects, views = [], [] -%}
    {%- for entry in entries -%}
        {%- for column in entry.by if column | lower not in types -%}
            {{ exceptions.raise_compiler_error(
                model.unique_id ~ ": got affected_by column '" ~ column ~ "', expected one of " ~ types.keys() | join(', ')
            ) }}
        {%- endfor -%}
        {%- set before = none -%}
        {%- if entry.reads_before -%}
            {%- set before = adapter.quote(target.schema ~ '__' ~ target.identifier ~ '__before_' ~ loop.index) -%}
            {%- do views.append(before) -%}
            {#- Spark takes `timestamp as of` neither into a view nor into what is cached -#}
            {%- do run_query(
                'create or replace temporary view ' ~ before ~ " using hudi options (path '" ~ entry.since.location
                ~ "', 'as.of.instant' '" ~ entry.since.completed ~ "')"
            ) -%}
        {%- endif -%}
        {%- do selects.append(_reached_keys(target, key, entry, _changed_values(entry, before, types))) -%}
    {%- endfor -%}
    {%- do run_query('cache table ' ~ keys ~ ' as ' ~ selects | join(' union ')) -%}
    {#- What is cached is found by its text: what the text names has to stay as long -#}
    {%- do return(views + [keys]) -%}
{%- endmacro %}

{% macro _reached_keys(target, key, entry, values) -%}
    {%- if entry.by.keys() | map('lower') | sort == key | map('lower') | sort -%}
    select {{ hudi_quoted(key) }}
    from ({{ values }})
    {%- else -%}
    select {% for column in key %}present.{{ adapter.quote(column) }}{{ ', ' if not loop.last }}{% endfor %}
    from {{ target }} as present
    left semi join ({{ values }}) as changed
        on
        {%- for column in entry.by %}
            {{ 'and ' if not loop.first }}present.{{ adapter.quote(column) }} = changed.{{ adapter.quote(column) }}
        {%- endfor %}
    {%- endif %}
{%- endmacro %}

{% macro _changed_values(entry, before, types) -%}
    {%- set values = [] -%}
    {%- for column, source_column in entry.by.items() -%}
        {%- do values.append(
            'cast(' ~ adapter.quote(source_column) ~ ' as ' ~ types[column | lower] ~ ') as ' ~ adapter.quote(column)
        ) -%}
    {%- endfor -%}
    {%- set is_new -%}
        (
            _hoodie_commit_time > '{{ entry.since.instant }}'
            {%- if entry.since.pending %}
            or _hoodie_commit_time in ('{{ entry.since.pending | join("', '") }}')
            {%- endif %}
        )
    {%- endset -%}
    select {{ values | join(', ') }}
    from {{ entry.relation }}
    where {{ is_new }}
    {%- if before is not none %}
    union
    select {{ values | join(', ') }}
    from {{ before }}
    where _hoodie_record_key in (select _hoodie_record_key from {{ entry.relation }} where {{ is_new }})
    {%- endif -%}
{%- endmacro %}
