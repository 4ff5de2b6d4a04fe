{#-
    What differs between a table and the rows that it is to hold: rows to be written, and keys of rows that go. A row that moves to
    another partition is two rows: one that the old place loses, one that the new place gains. Hudi looks for a row in its
    partition alone. Rows that share their key are always among them: the model's (`_lake_rows_of_key`), to be refused, and the table's
    (`_lake_rows_in_table`). What the table alone has (`kept_columns`) is that of the key's row there, also where that one moves.
-#}
{% macro hudi_difference_sql(target, source, key, columns, types, kept_columns) -%}
    {%- set partitions = hudi_partitions_beyond_key(key) -%}
    {%- set place_in_lower_case = (key + partitions) | map('lower') | list -%}
    select
    {%- for column in columns %}
        {%- set name = adapter.quote(column) %}
        {%- if column | lower in place_in_lower_case %}
        {#- As the table has it: 0.0 and -0.0 are equal, and two keys to Hudi #}
        coalesce(present.{{ name }}, wanted.{{ name }}) as {{ name }},
        {%- else %}
        wanted.{{ name }},
        {%- endif %}
    {%- endfor %}
    {%- for column in kept_columns %}
        first(present.{{ adapter.quote(column) }}, true) over (
            partition by {% for name in key %}coalesce(present.{{ adapter.quote(name) }}, wanted.{{ adapter.quote(name) }}){{ ', ' if not loop.last }}{% endfor %}
        ) as {{ adapter.quote(column) }},
    {%- endfor %}
        wanted._lake_rows_of_key,
        present._lake_rows_in_table,
        wanted._lake_rows_of_key is null as _lake_is_to_be_removed
    from (select *, count(*) over (partition by {{ hudi_quoted(key) }}) as _lake_rows_of_key from {{ source }}) as wanted
    full outer join (select *, count(*) over (partition by {{ hudi_quoted(key) }}) as _lake_rows_in_table from {{ target }}) as present
        on
            {{ hudi_equal('wanted', 'present', key) }}
            {%- if partitions %}
            and {{ hudi_equal_partitions('wanted', 'present', partitions) }}
            {%- endif %}
    where
        wanted._lake_rows_of_key is null
        or wanted._lake_rows_of_key > 1
        or present._lake_rows_in_table is null
        or present._lake_rows_in_table > 1
        {%- for column in columns if column | lower not in place_in_lower_case %}
            {%- set name, type = adapter.quote(column), types.get(column | lower, '') %}
        or not ({{ hudi_comparable('wanted.' ~ name, type) }} <=> {{ hudi_comparable('present.' ~ name, type) }})
        {%- endfor %}
{%- endmacro %}
