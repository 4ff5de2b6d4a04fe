{#- What an Iceberg table is partitioned by, columns and transforms: `partitioned_by`, as dbt-athena has it, or else `partition_by`. -#}
{% macro athena_partitioning() -%}
    {%- set own = config.get('partitioned_by') or hudi_partitions() -%}
    {%- do return([own] if own is string else own) -%}
{%- endmacro %}

{#- The same in parts: the transform, its column and number, and the field's name in Iceberg's metadata. -#}
{% macro athena_partition_fields() -%}
    {%- set fields = [] -%}
    {%- set suffixes = {'bucket': '_bucket', 'truncate': '_trunc', 'year': '_year', 'month': '_month', 'day': '_day', 'hour': '_hour'} -%}
    {%- for written in athena_partitioning() -%}
        {%- set found = modules.re.match('(?i)^\\s*(' ~ suffixes | join('|') ~ ')\\s*\\(\\s*"?([^"(),]+?)"?\\s*(?:,\\s*(\\d+)\\s*)?\\)\\s*$', written) -%}
        {%- set transform = found.group(1) | lower if found else none -%}
        {%- set column = found.group(2) if found else written -%}
        {%- do fields.append({
            'transform': transform, 'column': column, 'number': found.group(3) | int if found else 0,
            'name': column | lower ~ suffixes.get(transform, ''),
        }) -%}
    {%- endfor -%}
    {%- do return(fields) -%}
{%- endmacro %}

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
    {%- set now, then = athena_partition_fields() | map(attribute='name') | list, athena_partitions_of(existing) -%}
    {%- if now != then -%}
        {{ exceptions.raise_compiler_error(
            model.unique_id ~ ": got " ~ ('partitioned_by' if config.get('partitioned_by') else 'partition_by') ~ " = '"
            ~ athena_partitioning() | join(', ') ~ "', expected '" ~ then | join(', ') ~ "', with which its table was made; "
            ~ "dbt run --full-refresh makes it anew; nothing was written"
        ) }}
    {%- endif -%}
{%- endmacro %}

{#-
    In place of dbt-athena's, for Iceberg tables: conditions that divide rows by their partitions, so that one statement writes no more
    than Athena lets it. Values of other transforms than buckets are told apart as texts; buckets are counted.
-#}
{% macro get_partition_batches(sql, as_subquery=True) -%}
    {%- if resolve_table_type() != 'iceberg' -%}
        {%- do return(dbt.get_partition_batches(sql, as_subquery)) -%}
    {%- endif -%}
    {%- set rows, texts = '(' ~ sql ~ ')' if as_subquery else sql, [] -%}
    {%- set most = {'partitions': config.get('partitions_limit', 100) | int} -%}
    {%- set types = {} -%}
    {%- for column in get_column_schema_from_query('select * from ' ~ rows) -%}
        {%- do types.update({column.name | lower: column.dtype | lower}) -%}
    {%- endfor -%}
    {%- for field in athena_partition_fields() -%}
        {%- set column = adapter.quote(field.column | lower) -%}
        {%- if field.transform == 'bucket' -%}
            {%- do most.update({'partitions': most.partitions // field.number}) -%}
        {%- else -%}
            {%- if field.transform == 'truncate' -%}
                {%- set is_text = 'char' in types[field.column | lower] or types[field.column | lower] == 'string' -%}
                {%- set value = 'substr(' ~ column ~ ', 1, ' ~ field.number ~ ')' if is_text else 'floor(' ~ column ~ ' / ' ~ field.number ~ ')' -%}
            {%- else -%}
                {%- set value = "date_trunc('" ~ field.transform ~ "', " ~ column ~ ')' if field.transform else column -%}
            {%- endif -%}
            {%- do texts.append("coalesce('=' || cast(" ~ value ~ " as varchar), '')") -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if most.partitions < 1 -%}
        {{ exceptions.raise_compiler_error(
            model.unique_id ~ ": got partitions " ~ athena_partitioning() | join(', ') ~ ", expected buckets of which one statement can write all, "
            ~ config.get('partitions_limit', 100) ~ " at most; nothing was written"
        ) }}
    {%- endif -%}
    {%- set text, batches = texts | join(" || ' ' || ") or "''", [] -%}
    {%- set found = run_query('select distinct ' ~ text ~ ' as partition_text from ' ~ rows ~ ' order by 1').columns[0].values() -%}
    {%- for at in range(0, found | length, most.partitions) -%}
        {%- set listed = [] -%}
        {%- for value in found[at:at + most.partitions] -%}
            {%- do listed.append("'" ~ value | replace("'", "''") ~ "'") -%}
        {%- endfor -%}
        {%- do batches.append(text ~ ' in (' ~ listed | join(', ') ~ ')') -%}
    {%- endfor -%}
    {%- do return(batches or ['true']) -%}
{%- endmacro %}

{#- In place of dbt-athena's, for Iceberg tables: the table has its name once all parts are in it. A part of it would be taken for the whole. -#}
{% macro create_table_as_with_partitions(temporary, relation, compiled_code, language='sql') -%}
    {%- if resolve_table_type() != 'iceberg' -%}
        {%- do return(dbt.create_table_as_with_partitions(temporary, relation, compiled_code, language)) -%}
    {%- endif -%}
    {%- set rows, parts = athena_beside(relation, 'rows'), athena_beside(relation, 'parts') -%}
    {%- do run_query(create_table_as(false, rows, compiled_code, language, true)) -%}
    {%- set columns = adapter.get_columns_in_relation(rows) | map(attribute='quoted') | join(', ') -%}
    {%- for batch in get_partition_batches(rows, false) -%}
        {%- set part = 'select ' ~ columns ~ ' from ' ~ rows ~ ' where ' ~ batch -%}
        {%- do log(relation ~ ': part ' ~ loop.index ~ ' of ' ~ loop.length ~ ', each of as many partitions as one statement writes', info=true) -%}
        {%- do run_query(create_table_as(false, parts, part) if loop.first else 'insert into ' ~ parts ~ ' (' ~ columns ~ ')\n' ~ part) -%}
    {%- endfor -%}
    {%- do rename_relation(parts, relation) -%}
    {%- do drop_relation(rows) -%}
    {%- do athena_drop_left() -%}
{%- endmacro %}

{#-
    A table beside one, in a folder of its own, under a name that no other run has (`hudi_beside`): two runs at a time would write into
    one table, or drop each other's.
-#}
{% macro athena_beside(relation, purpose) -%}
    {%- do return(api.Relation.create(
        database=relation.database, schema=relation.schema, identifier=hudi_beside(relation, purpose).identifier,
        s3_path_table_part=relation.identifier, type='table'
    )) -%}
{%- endmacro %}

{#-
    Drops the tables that killed runs have left beside the model's, or beside one of those: once its rows are all there. One of a run that
    may be at work stays.
-#}
{% macro athena_drop_left() -%}
    {%- set pattern = '(?i)^' ~ modules.re.escape(this.identifier) ~ '__lake_.*__([0-9a-f]{8})_[0-9a-f]{8}$' -%}
    {%- for name in run_query('show tables in `' ~ this.schema ~ '`').columns[0].values() -%}
        {%- set began = modules.re.findall(pattern, name) -%}
        {%- if began and hudi_has_ended(began[0]) -%}
            {%- do drop_relation(this.incorporate(path={'identifier': name}, type='table')) -%}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro %}

{#- A table's rows are replaced by those of a select, in parts: who reads it sees it before, or after, or for a moment none. -#}
{% macro athena_replace_in_parts(existing, sql) -%}
    {%- set made = athena_beside(existing, 'made') -%}
    {%- do create_table_as_with_partitions(false, made, sql) -%}
    {%- do athena_take_name(made, existing) -%}
{%- endmacro %}

{#- Gives a table that is whole the name of the table or view that is there, which goes. -#}
{% macro athena_take_name(made, existing) -%}
    {%- if existing.is_view -%}
        {%- do drop_relation(existing) -%}
        {%- do rename_relation(made, existing.incorporate(type='table')) -%}
    {%- else -%}
        {%- set former = athena_beside(existing, 'before') -%}
        {%- do rename_relation(existing, former) -%}
        {%- do rename_relation(made, existing) -%}
        {%- do drop_relation(former) -%}
    {%- endif -%}
{%- endmacro %}
