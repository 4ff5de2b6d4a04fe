{#-
    In place of dbt-spark's, which hands the values of a seed over as parameters: the embedded session puts them into the statement
    without escaping a quote or a backslash, so that a value may end it and an empty cell is the text None; and numbers become
    floating-point ones, of which 9007199254740993 is none. A value that is none of its column's type would be null.
-#}
{% macro spark__load_csv_rows(model, agate_table) -%}
    {%- set column_types, casts, cells, inserts = model['config'].get('column_types', {}), [], [], [] -%}
    {%- for name in agate_table.column_names -%}
        {%- set cell, type = 'cell_' ~ loop.index, column_types.get(name, adapter.convert_type(agate_table, loop.index0)) -%}
        {%- set told = hudi_text(', expected a value of type ' ~ type ~ ' in column ' ~ name ~ ', or an empty cell') -%}
        {%- set refused = 'raise_error(concat(' ~ hudi_text(model.unique_id ~ ': got ') ~ ', ' ~ cell ~ ', ' ~ told ~ '))' -%}
        {%- do cells.append(cell) -%}
        {%- do casts.append('coalesce(cast(' ~ cell ~ ' as ' ~ type ~ '), if(' ~ cell ~ ' is null, null, ' ~ refused ~ '))') -%}
    {%- endfor -%}
    {%- for chunk in agate_table.rows | batch(get_batch_size()) -%}
        {%- set rows = [] -%}
        {%- for row in chunk -%}
            {%- set values = [] -%}
            {%- for value in row -%}
                {%- do values.append('null' if value is none else hudi_text(value | string)) -%}
            {%- endfor -%}
            {%- do rows.append('(' ~ values | join(', ') ~ ')') -%}
        {%- endfor -%}
        {%- set insert -%}
            insert into {{ this.render() }}
            select {{ casts | join(', ') }}
            from values
                {{ rows | join(',\n                ') }} as cells ({{ cells | join(', ') }})
        {%- endset -%}
        {%- do adapter.add_query(insert, abridge_sql_log=True) -%}
        {%- do inserts.append(insert) -%}
    {%- endfor -%}
    {#- dbt shows what is returned -#}
    {%- do return(inserts[0]) -%}
{%- endmacro %}
