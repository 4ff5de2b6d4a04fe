{#-
    In place of dbt-spark's statements, which hand the values over as parameters: the embedded session puts them into the text without
    escaping a quote or a backslash, so that a value may end it and an empty cell is the text None; and numbers become floating-point
    ones, of which 9007199254740993 is none. A value that is none of its column's type would be null, and one that is more than it can
    hold would be cut.
-#}
{% macro seed_write(relation, rows) -%}
    {%- set column_types, columns, names, casts, cells = config.get('column_types', {}), [], [], [], [] -%}
    {%- for name in rows.column_names -%}
        {%- set cell, type = 'cell_' ~ loop.index, column_types.get(name, adapter.convert_type(rows, loop.index0)) -%}
        {%- set message = hudi_text(', expected a value of type ' ~ type ~ ' in column ' ~ name ~ ', or an empty cell') -%}
        {%- set refused = 'raise_error(concat(' ~ hudi_text(model.unique_id ~ ': got ') ~ ', ' ~ cell ~ ', ' ~ message ~ '))' -%}
        {%- do names.append(adapter.quote_seed_column(name, config.get('quote_columns'))) -%}
        {%- do columns.append(names[-1] ~ ' ' ~ type) -%}
        {%- do cells.append(cell) -%}
        {%- set value = 'cast(' ~ cell ~ ' as ' ~ type ~ ')' -%}
        {%- do casts.append('case when ' ~ cell ~ ' is null then null when ' ~ _is_cut(cell, type) ~ ' then ' ~ refused
            ~ ' else coalesce(' ~ value ~ ', ' ~ refused ~ ') end') -%}
    {%- endfor -%}
    {%- set create -%}
        create table {{ relation }} ({{ columns | join(', ') }})
        {{ file_format_clause() }}
        {{ partition_cols(label='partitioned by') }}
        {{ clustered_cols(label='clustered by') }}
        {{ location_clause() }}
        {{ comment_clause() }}
    {%- endset -%}
    {%- do run_query(create) -%}
    {%- set inserts = [] -%}
    {%- for chunk in rows.rows | batch(get_batch_size()) -%}
        {%- set values = [] -%}
        {%- for row in chunk -%}
            {%- set of_row = [] -%}
            {%- for value in row -%}
                {%- do of_row.append('null' if value is none else hudi_text(value | string)) -%}
            {%- endfor -%}
            {%- do values.append('(' ~ of_row | join(', ') ~ ')') -%}
        {%- endfor -%}
        {%- set insert -%}
            insert into {{ relation }} ({{ names | join(', ') }})
            select {{ casts | join(', ') }}
            from values
                {{ values | join(',\n                ') }} as cells ({{ cells | join(', ') }})
        {%- endset -%}
        {%- do adapter.add_query(insert, abridge_sql_log=True) -%}
        {%- do inserts.append(insert) -%}
    {%- endfor -%}
    {#- dbt shows what is returned -#}
    {%- do return(inserts[0] or create) -%}
{%- endmacro %}

{#- Whether Spark's cast of a text takes a part of it: digits behind the point, letters of a text, the time of a date, half a date. -#}
{% macro _is_cut(cell, type) -%}
    {%- set name = modules.re.findall('^[a-z]+', type | lower | trim)[:1] | join -%}
    {%- set digits = modules.re.findall('\\d+', type) | map('int') | list -%}
    {%- set fraction = cell ~ " rlike '^[^eE]*[.][0-9]{%d}[0-9]*[1-9]'" -%}
    {%- if name in ['tinyint', 'smallint', 'int', 'integer', 'bigint', 'byte', 'short', 'long'] -%}
        {%- do return(fraction % 0) -%}
    {%- elif name in ['decimal', 'dec', 'numeric'] -%}
        {%- do return(fraction % (digits[1] if digits | length > 1 else 0)) -%}
    {%- elif name in ['varchar', 'char', 'character'] and digits -%}
        {%- do return('length(' ~ cell ~ ') > ' ~ digits[0]) -%}
    {%- elif name == 'date' -%}
        {%- do return(cell ~ " not rlike '^[ ]*[+-]?[0-9]+-[0-9]+-[0-9]+([ T]+0*(:0*)*([.]0*)?)?[ ]*$'") -%}
    {%- elif name == 'timestamp' -%}
        {%- do return(cell ~ " not rlike '^[ ]*[+-]?[0-9]+-[0-9]+-[0-9]+' or " ~ fraction % 6) -%}
    {%- endif -%}
    {%- do return('false') -%}
{%- endmacro %}
