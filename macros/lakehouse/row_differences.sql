{#-
    How two tables of one model differ, as one row: rows of both, keys that only one has, rows of which a column differs,
    and a column `differs_in_<column>` with the number of rows for each column that both have.
-#}
{% macro row_differences(ours, theirs, key, columns) -%}
    select
        (select count(*) from {{ ours }}) as rows_here,
        (select count(*) from {{ theirs }}) as rows_there,
        count_if(their_row is null) as only_here,
        count_if(our_row is null) as only_there,
        count_if(our_row is not null and their_row is not null and not our_row <=> their_row) as changed
        {%- for column in columns %},
        count_if(
            our_row is not null and their_row is not null and not our_row.{{ adapter.quote(column) }} <=> their_row.{{ adapter.quote(column) }}
        ) as {{ adapter.quote('differs_in_' ~ column) }}
        {%- endfor %}
    from (select struct({{ hudi_quoted(columns) }}) as our_row, struct({{ hudi_quoted(key) }}) as our_key from {{ ours }})
    full outer join (select struct({{ hudi_quoted(columns) }}) as their_row, struct({{ hudi_quoted(key) }}) as their_key from {{ theirs }})
        on our_key = their_key
{%- endmacro %}
