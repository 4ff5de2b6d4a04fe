{#- The columns that an Iceberg table is partitioned by, as it was made: its own metadata has them, neither Glue nor its columns do. -#}
{% macro athena_partitions_of(existing) -%}
    {%- set metadata, names = existing.incorporate(path={'identifier': existing.identifier ~ '$partitions'}), [] -%}
    {#- A table without partitions has no such column there -#}
    {%- set shown = get_column_schema_from_query('select * from ' ~ metadata) | map(attribute='name') | map('lower') | list -%}
    {%- if 'partition' in shown -%}
        {#- As row("kind" varchar, "day" date), and without any rows as well -#}
        {%- set type = run_query('select typeof(arbitrary("partition")) from ' ~ metadata).columns[0].values()[0] -%}
        {%- do names.extend(modules.re.findall('(?:^row\\(|, )"?([^" (),]+)"? ', type)) -%}
    {%- endif -%}
    {%- do return(names) -%}
{%- endmacro %}

{#- A merge writes into the partitions that the table has: other ones need another table, as on Spark. -#}
{% macro athena_require_partitions(existing) -%}
    {%- set now, then = hudi_partitions() | join(', '), athena_partitions_of(existing) | join(', ') -%}
    {%- if now | lower != then | lower -%}
        {{ exceptions.raise_compiler_error(
            model.unique_id ~ ": got partition_by = '" ~ now ~ "', expected '" ~ then ~ "', with which its table was made; "
            ~ "dbt run --full-refresh makes it anew; nothing was written"
        ) }}
    {%- endif -%}
{%- endmacro %}
