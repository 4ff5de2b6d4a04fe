{#-
    The value of a column that a silver table is partitioned by. Athena's engine takes it from the folder's name and not from the row,
    and may show a null as the name that Hive has for one: the row's own path tells which it is.
-#}
{% macro partition_value(column) -%}
    {{ return(adapter.dispatch('partition_value')(column)) }}
{%- endmacro %}

{% macro default__partition_value(column) -%}
    {{ column }}
{%- endmacro %}

{% macro athena__partition_value(column) -%}
    {#- The other way round a unit test's rows, which have no path, would have no value -#}
    case when regexp_like(_hoodie_partition_path, '(^|/){{ column }}=__HIVE_DEFAULT_PARTITION__(/|$)') then null else {{ column }} end
{%- endmacro %}
