{#-
    How two tables of one model differ, as one row: rows of both, keys that only one has, and rows of which a column differs.
    Rows are compared by a hash: what is shuffled and sorted is a key and a number. The hash passes over nulls: where they stand
    is part of it.
-#}
{% macro row_differences(ours, theirs, key, columns) -%}
    {%- set places = [] -%}
    {%- for column in columns -%}
        {%- do places.append(adapter.quote(column) ~ ' is null') -%}
    {%- endfor -%}
    {%- set row_hash = 'xxhash64(' ~ hudi_quoted(columns) ~ ', array(' ~ places | join(', ') ~ '))' -%}
    select
        count(ours.row_hash) as rows_here,
        count(theirs.row_hash) as rows_there,
        count_if(theirs.row_hash is null) as only_here,
        count_if(ours.row_hash is null) as only_there,
        count_if(ours.row_hash <> theirs.row_hash) as changed
    from (select {{ hudi_quoted(key) }}, {{ row_hash }} as row_hash from {{ ours }}) as ours
    full outer join (select {{ hudi_quoted(key) }}, {{ row_hash }} as row_hash from {{ theirs }}) as theirs
        on {{ hudi_equal('ours', 'theirs', key) }}
{%- endmacro %}
