{#-
    How two tables of one model differ, as one row: rows of both, keys that only one has, and rows that differ in a column of both.
    Rows are compared by a hash (`row_hash`): what is shuffled is a key and a number, and neither table is sorted.
-#}
{% macro row_differences(ours, theirs, key) -%}
    {%- set hashed = row_hash(columns_of(ours, theirs)) -%}
    select
        coalesce(sum(rows_here), 0) as rows_here,
        coalesce(sum(rows_there), 0) as rows_there,
        count_if(rows_there = 0) as only_here,
        count_if(rows_here = 0) as only_there,
        count_if(hash_here <> hash_there) as changed
    from (
        select
            count(hash_here) as rows_here,
            count(hash_there) as rows_there,
            max(hash_here) as hash_here,
            max(hash_there) as hash_there
        from (
            select {{ hudi_quoted(key) }}, {{ hashed }} as hash_here, cast(null as bigint) as hash_there
            from {{ ours }}
            union all
            select {{ hudi_quoted(key) }}, cast(null as bigint) as hash_here, {{ hashed }} as hash_there
            from {{ theirs }}
        )
        group by {{ hudi_quoted(key) }}
    )
{%- endmacro %}
