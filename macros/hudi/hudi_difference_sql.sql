{#-
    A row that moves to another partition is two rows: one that the old place loses, one that the new place gains. Hudi
    looks for a row in its partition alone.
-#}
{% macro hudi_difference_sql(target, source, key, columns) -%}
    {%- set partitions = hudi_partitions_beyond_key(key) -%}
    {%- set place_in_lower_case = (key + partitions) | map('lower') | list -%}
    select
    {%- for column in columns %}
        {%- set name = adapter.quote(column) %}
        {%- if column | lower in place_in_lower_case %}
        coalesce(wanted.{{ name }}, present.{{ name }}) as {{ name }},
        {%- else %}
        wanted.{{ name }},
        {%- endif %}
    {%- endfor %}
        wanted.is_in_model is null as is_to_be_removed
    from (select *, true as is_in_model from {{ source }}) as wanted
    full outer join (select *, true as is_in_table from {{ target }}) as present
        on
            {{ hudi_equal('wanted', 'present', key) }}
            {%- if partitions %}
            and {{ hudi_equal_partitions('wanted', 'present', partitions) }}
            {%- endif %}
    where
        wanted.is_in_model is null
        or present.is_in_table is null
        {%- for column in columns if column | lower not in place_in_lower_case %}
        or not (wanted.{{ adapter.quote(column) }} <=> present.{{ adapter.quote(column) }})
        {%- endfor %}
{%- endmacro %}
