{#-
    The condition under which a row has a null in its key, or what Hudi takes for one: an empty text alone. Hudi spells a composite
    key as one text, `id:1,part:a`: a value that holds the beginning of the next one could be that of another key.
-#}
{% macro hudi_lacks(key) -%}
    {%- set lacking, empty = [], [] -%}
    {%- for column in key -%}
        {%- set name, value = adapter.quote(column), 'cast(' ~ adapter.quote(column) ~ ' as string)' -%}
        {%- do lacking.append(name ~ ' is null') -%}
        {%- do empty.append(value ~ " = ''") -%}
        {%- if adapter.type() == 'spark' and key | length > 1 -%}
            {%- do lacking.append(value ~ " = '__empty__'") -%}
            {%- if not loop.last -%}
                {%- do lacking.append('locate(' ~ hudi_text(',' ~ key[loop.index] ~ ':') ~ ', ' ~ value ~ ') > 0') -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if adapter.type() == 'spark' -%}
        {%- do lacking.append('(' ~ empty | join(' and ') ~ ')') -%}
    {%- endif -%}
    {{- lacking | join(' or ') -}}
{%- endmacro %}

{#- What the key of a row may not be on Spark, where Hudi writes it, besides null. -#}
{% macro _taken_for_other_keys(key) -%}
    {%- set parts = [] -%}
    {%- for column in key[1:] -%}
        {%- do parts.append(',' ~ column ~ ':') -%}
    {%- endfor -%}
    {{- ', not of empty text' ~ (' alone, and no text with ' ~ parts | join(' or ') ~ " or that is '__empty__'" if parts else '') -}}
{%- endmacro %}

{#- Of the rows that are to be written each has a key, and no two the same one. -#}
{% macro hudi_require_keys(rows, key) -%}
    {%- set counted -%}
        select
            coalesce(sum(if({{ hudi_lacks(key) }}, row_count, 0)), 0) as null_count,
            coalesce(sum(if({{ hudi_lacks(key) }} or row_count = 1, 0, row_count)), 0) as shared_count
        from (select {{ hudi_quoted(key) }}, count(*) as row_count from {{ rows }} group by {{ hudi_quoted(key) }})
    {%- endset -%}
    {%- set found = run_query(counted)[0] -%}
    {%- do hudi_refuse_keys(key, found['null_count'], found['shared_count'], []) -%}
{%- endmacro %}

{#-
    Where a changed row reaches a key with a null, the model may have rows of such a key, which no comparison of keys finds: they are
    looked for.
-#}
{% macro hudi_require_no_nulls(wanted, affected, key) -%}
    {%- if run_query('select 1 as row from ' ~ affected ~ ' where ' ~ hudi_lacks(key) ~ ' limit 1') -%}
        {%- set counted = run_query('select count(*) as row_count from ' ~ wanted ~ ' where ' ~ hudi_lacks(key))[0] -%}
        {%- do hudi_refuse_keys(key, counted['row_count'], 0, []) -%}
    {%- endif -%}
{%- endmacro %}

{#- The refusal of rows that have no key of their own; what the run has made beside its table is dropped before. -#}
{% macro hudi_refuse_keys(key, null_count, shared_count, made) -%}
    {%- if null_count or shared_count -%}
        {%- for table in made -%}
            {%- do hudi_drop(table) -%}
        {%- endfor -%}
        {{ exceptions.raise_compiler_error(
            model.unique_id ~ ': got ' ~ null_count ~ ' rows with a null in unique_key (' ~ key | join(', ') ~ ') and ' ~ shared_count
            ~ ' rows that share theirs with others, expected one row for each key' ~ _taken_for_other_keys(key) ~ '; nothing was written'
        ) }}
    {%- endif -%}
{%- endmacro %}
