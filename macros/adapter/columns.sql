{#- Types of columns by their names in lower case. -#}
{% macro hudi_types(columns) -%}
    {%- set types = {} -%}
    {%- for column in columns -%}
        {%- do types.update({column.name | lower: column.dtype}) -%}
    {%- endfor -%}
    {%- do return(types) -%}
{%- endmacro %}

{% macro hudi_quoted(columns) -%}
    {%- set quoted = [] -%}
    {%- for column in columns -%}
        {%- do quoted.append(adapter.quote(column)) -%}
    {%- endfor -%}
    {%- do return(quoted | join(', ')) -%}
{%- endmacro %}

{#- The condition under which two rows have equal values in some columns, none of them null; by `<=>` or `is not distinct from`, or both null. -#}
{% macro hudi_equal(left, right, columns, operator='=') -%}
    {%- set equal = [] -%}
    {%- for column in columns -%}
        {%- do equal.append(left ~ '.' ~ adapter.quote(column) ~ ' ' ~ operator ~ ' ' ~ right ~ '.' ~ adapter.quote(column)) -%}
    {%- endfor -%}
    {%- do return(equal | join(' and ')) -%}
{%- endmacro %}

{#- The texts that Hudi reads as null where a partition's column has them. -#}
{% macro hudi_blank_partitions() -%}
    {%- do return("('', '__HIVE_DEFAULT_PARTITION__')") -%}
{%- endmacro %}

{#- The condition under which two rows stand in one partition: Hudi has one place for null and the texts that it reads as null. -#}
{% macro hudi_equal_partitions(left, right, columns) -%}
    {%- set equal = [] -%}
    {%- for column in columns -%}
        {%- set sides = [] -%}
        {%- for side in (left, right) -%}
            {%- set text = 'cast(' ~ side ~ '.' ~ adapter.quote(column) ~ ' as string)' -%}
            {%- do sides.append('if(' ~ text ~ ' in ' ~ hudi_blank_partitions() ~ ', null, ' ~ text ~ ')') -%}
        {%- endfor -%}
        {%- do equal.append(sides | join(' <=> ')) -%}
    {%- endfor -%}
    {%- do return(equal | join(' and ')) -%}
{%- endmacro %}

{% macro hudi_partitions() -%}
    {%- set partitions = config.get('partition_by') or [] -%}
    {%- do return([partitions] if partitions is string else partitions) -%}
{%- endmacro %}

{#- The columns of the model's partitions that its key does not have: a row can move from one to another. -#}
{% macro hudi_partitions_beyond_key(key) -%}
    {%- set key_in_lower_case = key | map('lower') | list -%}
    {%- set beyond = [] -%}
    {%- for column in hudi_partitions() if column | lower not in key_in_lower_case -%}
        {%- do beyond.append(column) -%}
    {%- endfor -%}
    {%- do return(beyond) -%}
{%- endmacro %}

{#- What two values of a type are compared by: Spark compares no maps, and JSON has each value that one holds. -#}
{% macro hudi_comparable(value, type) -%}
    {{- row_as_json(value) if 'map<' in type | lower else value -}}
{%- endmacro %}

{#- Some values as JSON, times with all of their digits: Spark's own choice is milliseconds. -#}
{% macro row_as_json(values) -%}
    to_json(struct({{ values }}), map('timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS'))
{%- endmacro %}
