{#-
    The rows of a select as an Iceberg table takes them: times to the microsecond, which is all that Iceberg has, and checked. Athena
    knows no constraints: `not_null` and `check` are carried out as the rows are read, as Hudi's are, and so is the time of a batch.
    With a `key`, each has one row. Of the columns those that are `read` tell it: a merge reads no others.
-#}
{% macro athena_rows(sql, columns, key=none, read=none) -%}
    {%- set broken = [] -%}
    {%- set names, checked = columns | map(attribute='name') | list, [] -%}
    {%- for name in names if name | lower in (read or names) | map('lower') | list -%}
        {%- do checked.append(name) -%}
    {%- endfor -%}
    {%- for condition, message in hudi_broken_constraints() + hudi_broken_batch() -%}
        {%- do broken.append((condition, "'" ~ message | replace("'", "''") ~ "'")) -%}
    {%- endfor -%}
    {%- if key -%}
        {%- do broken.append((hudi_lacks(key), "'" ~ model.unique_id ~ ": got a row with a null in unique_key (" ~ key | join(', ')
            ~ "), expected one row for each key; nothing was written'")) -%}
        {%- do broken.append(('_lake_count > 1', _shared_key_text(key, '_lake_count'))) -%}
    {%- endif -%}
    select
        {%- for column in columns %}
        {%- set name = adapter.quote(column.name) %}
        {%- set time = {'timestamp': 'timestamp(6)', 'timestamp with time zone': 'timestamp(6) with time zone'}.get(column.dtype | lower) %}
        {%- set value = 'cast(' ~ name ~ ' as ' ~ time ~ ')' if time else name %}
        {%- if column.name == checked[0] and broken %}
        case
            {%- for condition, message in broken %}
            when {{ condition }} then {{ athena_raise(message, value) }}
            {%- endfor %}
            else {{ value }}
        end as {{ name }}{{ ',' if not loop.last }}
        {%- else %}
        {{ value }} as {{ name }}{{ ',' if not loop.last }}
        {%- endif %}
        {%- endfor %}
    from (
        {%- if key %}
        select *, count(*) over (partition by {{ hudi_quoted(key) }}) as _lake_count
        from (
            {{ sql }}
        )
        {%- else %}
        {{ sql }}
        {%- endif %}
    )
{%- endmacro %}

{#- A value of another's type that cannot be had: who asks for it gets a text as the error. Athena has no function that raises one. -#}
{% macro athena_raise(text, value) -%}
    element_at(array[{{ value }}], cast({{ text }} as integer))
{%- endmacro %}

{% macro _shared_key_text(key, count, verb='got', expected='one row for each key') -%}
    {%- set values = [] -%}
    {%- for column in key -%}
        {%- do values.append("'" ~ column ~ " = ' || coalesce(cast(" ~ adapter.quote(column) ~ " as varchar), 'null')") -%}
    {%- endfor -%}
    '{{ model.unique_id }}: {{ verb }} ' || cast({{ count }} as varchar) || ' rows of the key ' || {{ values | join(" || ', ' || ") }}
    || ', expected {{ expected }}; nothing was written'
{%- endmacro %}

{#- The contract's columns are the select's, and what the configuration names is among them. -#}
{% macro athena_require_columns(columns, key) -%}
    {%- set names = columns | map(attribute='name') | list -%}
    {%- if config.get('contract').enforced -%}
        {%- set declared = get_column_schema_from_query(get_empty_schema_sql(model['columns'])) if model['columns'] else [] -%}
        {%- set from_model, from_contract = athena_described(columns), athena_described(declared) -%}
        {%- if from_model | sort(attribute='name') != from_contract | sort(attribute='name') -%}
            {%- do exceptions.raise_contract_error(from_contract, from_model) -%}
        {%- endif -%}
    {%- endif -%}
    {%- for setting, wanted in [('unique_key', key or []), ('partition_by', athena_partition_fields() | map(attribute='column') | list)] -%}
        {%- for column in wanted if column | lower not in names | map('lower') | list -%}
            {{ exceptions.raise_compiler_error(
                model.unique_id ~ ": got " ~ setting ~ " column '" ~ column ~ "', expected one of " ~ names | join(', ')
            ) }}
        {%- endfor -%}
    {%- endfor -%}
{%- endmacro %}

{% macro athena_described(columns) -%}
    {%- set described = [] -%}
    {%- for column in columns -%}
        {%- do described.append({'name': column.name, 'data_type': column.dtype}) -%}
    {%- endfor -%}
    {%- do return(described) -%}
{%- endmacro %}

{#- Whether a table has the columns of a select, by names and types; one that has not is built anew. -#}
{% macro athena_has_columns_of(existing, sql) -%}
    {%- set empty = 'select * from ' ~ existing -%}
    {%- set there, wanted = get_column_schema_from_query(empty), get_column_schema_from_query(sql) -%}
    {%- if athena_described(there) | sort(attribute='name') != athena_described(wanted) | sort(attribute='name') -%}
        {%- do return(false) -%}
    {%- endif -%}
    {%- do return(not athena_changed_types(existing, sql, wanted | map(attribute='name') | list)) -%}
{%- endmacro %}

{#-
    The columns of those names that the select has of another type than the table, in words: a merge would round or cut their values
    to the table's. The engine tells types whole, where Athena's answers have a decimal without its digits.
-#}
{% macro athena_changed_types(existing, sql, names) -%}
    {%- set shown, changed = [], [] -%}
    {%- for side in ['wanted', 'present'] -%}
        {%- for name in names -%}
            {%- do shown.append('typeof(arbitrary(' ~ side ~ '.' ~ adapter.quote(name) ~ '))') -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- if execute and names -%}
        {%- set of_both = 'select ' ~ shown | join(', ') ~ ' from (\n' ~ sql ~ '\n) as wanted cross join ' ~ existing ~ ' as present where false' -%}
        {%- set types = run_query(of_both).rows[0].values() -%}
        {%- for name in names -%}
            {%- set wanted, present = _held_by_iceberg(types[loop.index0]), _held_by_iceberg(types[loop.index0 + names | length]) -%}
            {%- if wanted not in [present, 'unknown'] -%}
                {%- do changed.append(name ~ ' as ' ~ wanted ~ ' (the table: ' ~ present ~ ')') -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
    {%- do return(changed) -%}
{%- endmacro %}

{#- What an Iceberg table makes of a type of a select: texts of any length, times of six digits, and no integers of less than 32 bits. -#}
{% macro _held_by_iceberg(type) -%}
    {%- set type = modules.re.sub('\\b(?:var)?char(?:\\(\\d+\\))?', 'varchar', type) -%}
    {%- set type = modules.re.sub('\\b(timestamp|time)\\(\\d+\\)', '\\1(6)', type) -%}
    {%- do return(modules.re.sub('\\b(?:tinyint|smallint)\\b', 'integer', type)) -%}
{%- endmacro %}

{#- Columns with the types of the model's contract, where it has one: Athena's answers tell a decimal without its digits. -#}
{% macro athena_typed(columns) -%}
    {%- set typed = [] -%}
    {%- for column in columns -%}
        {%- set declared = model['columns'].get(column.name, {}).get('data_type') or column.dtype | lower -%}
        {%- if declared == 'decimal' -%}
            {{ exceptions.raise_compiler_error(
                model.unique_id ~ ": got a new column '" ~ column.name ~ "' of type decimal, expected its digits in the model's columns (data_type)"
            ) }}
        {%- endif -%}
        {%- do typed.append(api.Column.create(column.name, dml_data_type(declared))) -%}
    {%- endfor -%}
    {%- do return(typed) -%}
{%- endmacro %}

{% macro athena_is_iceberg(relation) -%}
    {%- set kind = adapter.get_glue_table_type(relation) -%}
    {%- do return(kind is not none and kind.value == 'iceberg_table') -%}
{%- endmacro %}
