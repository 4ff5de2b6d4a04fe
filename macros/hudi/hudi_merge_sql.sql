{% macro hudi_merge_sql(target, difference, key, columns) -%}
    {%- set quoted = [] -%}
    {%- for column in columns -%}
        {%- do quoted.append(adapter.quote(column)) -%}
    {%- endfor -%}
    merge into {{ target }} as target
    using {{ difference }} as difference
        on
        {%- for column in key %}
            {{ 'and ' if not loop.first }}target.{{ adapter.quote(column) }} = difference.{{ adapter.quote(column) }}
        {%- endfor %}
    {#- Hudi 1.2 tries the update clauses first, whatever their order: without its condition the update would win -#}
    when matched and difference.is_to_be_removed then delete
    when matched and not difference.is_to_be_removed then update set
    {%- for column in quoted %}
        {{ column }} = difference.{{ column }}{{ ',' if not loop.last }}
    {%- endfor %}
    when not matched then insert ({{ quoted | join(', ') }})
        values (difference.{{ quoted | join(', difference.') }})
{%- endmacro %}
