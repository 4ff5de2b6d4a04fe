{#-
    The condition under which a row has a null in its key, or what Hudi takes for one: an empty text alone, and in a partition's column
    an empty text, or Hive's name for null (`hudi_blank_partitions`), which it reads as null. Hudi spells a composite
    key as one text, `id:1,part:a`: a value that holds the beginning of the next one could be that of another key. And its bucket
    index takes what stands around a colon for a column and its value: where the last two colons of a text have no comma between
    them, and one stands before, it searches forever (`KeyGenUtils.extractRecordKeysByFields` of Hudi 1.2).
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
        {%- for column in hudi_partitions() if column | lower in key | map('lower') -%}
            {%- do lacking.append('cast(' ~ adapter.quote(column) ~ ' as string) in ' ~ hudi_blank_partitions()) -%}
        {%- endfor -%}
        {%- if hudi_options().get('hoodie.index.type') == 'BUCKET' -%}
            {%- set before = '(?s),.*' if key | length > 1 else '(?s)^(?=.*,).*' -%}
            {%- do lacking.append('cast(' ~ adapter.quote(key[-1]) ~ ' as string) rlike ' ~ hudi_text(before ~ ':[^,:]*:[^:]*$')) -%}
        {%- endif -%}
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
    {%- for column in hudi_partitions() if parts and column | lower in key | map('lower') -%}
        {{- ', and in the partition column ' ~ column ~ ' none of ' ~ hudi_blank_partitions() ~ ', which Hudi reads as null' -}}
    {%- endfor -%}
    {%- if hudi_options().get('hoodie.index.type') == 'BUCKET' -%}
        {{- ", nor as 'a, b:c:d', in which Hudi's bucket index would search forever (hoodie.index.type: SIMPLE would not)" -}}
    {%- endif -%}
{%- endmacro %}

{#- Of the rows that are to be written each has a key, and no two the same one. -#}
{% macro hudi_require_keys(rows, key) -%}
    {%- set counted -%}
        select
            coalesce(sum(if({{ hudi_lacks(key) }}, _lake_row_count, 0)), 0) as null_count,
            coalesce(sum(if({{ hudi_lacks(key) }} or _lake_row_count = 1, 0, _lake_row_count)), 0) as shared_count
        from (select {{ hudi_quoted(key) }}, count(*) as _lake_row_count from {{ rows }} group by {{ hudi_quoted(key) }})
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
