{#-
    Fails if the table of a model holds other rows than the model's own select gives now, read through what it refers to: by
    `unique_key`, both ways. The log names the first keys that differ, and how. Where something upstream has changed since the
    model was built, a difference proves nothing: it is a warning. A column that the select has no longer is not looked at.
-#}
{% test equals_its_select(model) %}
    {{ config(fail_calc='coalesce(max(differing), 0)') }}
    {%- if not execute or flags.WHICH not in ['test', 'build'] or hudi_reads_a_part() -%}
        select 0 as differing where false
    {%- else -%}
        {%- set node = _tested_model() -%}
        {%- set found = _differing_keys(node, model) -%}
        {%- for difference in found.differences -%}
            {%- do log(model ~ ': ' ~ difference, info=true) -%}
        {%- endfor -%}
        {%- if found.count and upstreams_moved(model, node) -%}
            {%- do exceptions.warn(
                model ~ ': ' ~ found.count ~ ' keys differ from its select, and something upstream has changed since it was built: '
                ~ 'run the model and this test again'
            ) -%}
            select 0 as differing where false
        {%- else -%}
            select {{ found.count }} as differing where {{ found.count }} > 0
        {%- endif -%}
    {%- endif -%}
{% endtest %}

{#- The node of the model that the test stands at. -#}
{% macro _tested_model() -%}
    {%- set node = graph.nodes.get(model.attached_node) -%}
    {%- set expected = 'expected equals_its_select at a model with a table and a unique_key, without where' -%}
    {%- if node is none or node.config.materialized in ['view', 'ephemeral'] or not node.config.unique_key or config.get('where') -%}
        {{ exceptions.raise_compiler_error(model.unique_id ~ ': got ' ~ (node or model).unique_id ~ ', ' ~ expected) }}
    {%- endif -%}
    {%- do return(node) -%}
{%- endmacro %}

{#- How many keys differ between a model's table and its select, and what differs of the first of them. -#}
{% macro _differing_keys(node, relation) -%}
    {%- set key = key_columns(node.config.unique_key, node.unique_id) -%}
    {%- set select = select_of(node) -%}
    {%- set shown, columns = get_columns_in_query(select) | map('lower') | list, [] -%}
    {%- for column in adapter.get_columns_in_relation(relation_of_text(relation)) if column.name | lower in shown -%}
        {%- do columns.append(column) -%}
    {%- endfor -%}
    {%- set parts = {'table': relation, 'select': '(\n' ~ select ~ '\n)'} -%}
    {%- set sides = [] -%}
    {%- for side, rows in parts.items() -%}
        {%- do sides.append(
            'select ' ~ hudi_quoted(key) ~ ', ' ~ row_hash(columns) ~ ' as row_hash, ' ~ (1 if side == 'table' else 0)
            ~ ' as in_table, ' ~ (1 if side == 'select' else 0) ~ ' as in_select from ' ~ rows
        ) -%}
    {%- endfor -%}
    {%- set query -%}
        select *, count(*) over () as differing
        from (
            select
                {{ hudi_quoted(key) }},
                sum(in_table) as rows_in_table,
                sum(in_select) as rows_in_select,
                sum(cast(row_hash as decimal(38, 0)) * (in_table - in_select)) as hash_difference
            from ({{ sides | join(' union all ') }})
            group by {{ hudi_quoted(key) }}
        )
        where rows_in_table <> rows_in_select or hash_difference <> 0
        order by {{ hudi_quoted(key) }}
        limit 5
    {%- endset -%}
    {%- set found = {'count': 0, 'differences': []} -%}
    {%- for row in run_query(query) -%}
        {%- set values = [] -%}
        {%- for column in key -%}
            {%- do values.append(column ~ ' = ' ~ row[column]) -%}
        {%- endfor -%}
        {%- set how = 'another row' if row['rows_in_table'] == row['rows_in_select'] else row['rows_in_table'] ~ ' rows' -%}
        {%- do found.differences.append(
            values | join(', ') ~ ': got ' ~ how ~ ' in the table, expected '
            ~ ('the row' if row['rows_in_table'] == row['rows_in_select'] else row['rows_in_select'] ~ ' rows') ~ ' of its select'
        ) -%}
        {%- do found.update({'count': row['differing']}) -%}
    {%- endfor -%}
    {%- do return(found) -%}
{%- endmacro %}
