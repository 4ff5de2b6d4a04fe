{% macro hudi_merge_sql(target, difference, key, columns) -%}
    {%- do hudi_write_as(target, 'upsert') -%}
    merge into {{ target }} as target
    using {{ difference }} as difference
        on {{ hudi_equal('target', 'difference', key + hudi_partitions_beyond_key(key)) }}
    {#- Hudi 1.2 tries the update clauses first, whatever their order: without its condition the update would win -#}
    when matched and difference._lake_is_to_be_removed then delete
    when matched and not difference._lake_is_to_be_removed then update set
    {%- for column in columns %}
        {{ adapter.quote(column) }} = difference.{{ adapter.quote(column) }}{{ ',' if not loop.last }}
    {%- endfor %}
    {#- A key that Hudi does not find, as one with a null, has no row to be removed: it would become one -#}
    when not matched and not difference._lake_is_to_be_removed then insert ({{ hudi_quoted(columns) }})
        values ({% for column in columns %}difference.{{ adapter.quote(column) }}{{ ', ' if not loop.last }}{% endfor %})
{%- endmacro %}
