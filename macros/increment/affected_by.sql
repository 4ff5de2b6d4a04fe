{#-
    The entries of the model's `meta.affected_by`, checked: which rows of the model a changed row of a source reaches.
    `{source: tickit.sale, by: {buyer_id: buyerid}}`: those whose buyer_id is the buyerid that a changed sale has, or had.

    A source that can bring new rows needs an entry by the model's key. Any other entry finds rows that are there: its
    columns must hold what the rows refer to, also where that is missing.

    With `reads: [saletime]`, a changed row counts only where it came, went, or has another value in one of these columns or
    of those that are looked at. Returned are also `columns`, what is read of the table, and `reads_before`, whether it is read
    as it was too.
-#}
{% macro affected_by() -%}
    {%- set written = (config.get('meta') or {}).get('affected_by') or [] -%}
    {%- set expected = "expected a list of {source: <source>.<table>, by: {<column of the model>: <column of the table>}}, "
        ~ "each with reads: [<column of the table>] or without" -%}
    {%- set entries = [] -%}
    {%- for entry in written -%}
        {%- set reads = entry.reads if entry is mapping and 'reads' in entry else [] -%}
        {%- if entry is not mapping or entry.keys() | reject('eq', 'reads') | sort != ['by', 'source']
            or entry.by is not mapping or not entry.by or reads is string or reads is not iterable -%}
            {{ exceptions.raise_compiler_error(model.unique_id ~ ": got affected_by = " ~ entry ~ ", " ~ expected) }}
        {%- endif -%}
        {%- set found = [] -%}
        {%- for node in graph.sources.values() if node.source_name ~ '.' ~ node.name == entry.source -%}
            {%- do found.append(node) -%}
        {%- endfor -%}
        {%- if not found -%}
            {{ exceptions.raise_compiler_error(
                model.unique_id ~ ": got affected_by source '" ~ entry.source ~ "', expected a declared <source>.<table>"
            ) }}
        {%- endif -%}
        {%- if not is_landed_by_lake(found[0]) -%}
            {{ exceptions.raise_compiler_error(
                model.unique_id ~ ": got affected_by source '" ~ entry.source ~ "', expected one that lake ingest lands (meta.ingest): "
                ~ "a row that is deleted from another table leaves no tombstone to follow; without the entry the whole table is compared"
            ) }}
        {%- endif -%}
        {%- set key = (((found[0].config.get('meta') or {}).get('ingest') or {}).get('key') or []) | map('lower') | list -%}
        {%- set columns = entry.by.values() | list + reads | list -%}
        {%- for column in columns if column | lower not in found[0].columns.keys() | map('lower') | list -%}
            {{ exceptions.raise_compiler_error(
                model.unique_id ~ ": got affected_by column '" ~ column ~ "' of " ~ entry.source ~ ", expected one of "
                ~ found[0].columns.keys() | join(', ')
            ) }}
        {%- endfor -%}
        {%- set beyond_key = columns | map('lower') | reject('in', key) | list -%}
        {%- do entries.append({
            'relation': found[0].relation_name.replace('`', '').lower(), 'by': entry.by, 'reads': reads | list,
            'columns': columns + (['__deleted'] if reads else []), 'reads_before': beyond_key | length > 0
        }) -%}
    {%- endfor -%}
    {%- do return(entries) -%}
{%- endmacro %}

{#- Whether a source's table is one that `lake ingest` lands: it, or its source, has `meta.ingest`. -#}
{% macro is_landed_by_lake(source) -%}
    {%- set meta = (source.source_meta or {}, source.config.get('meta') or {}) -%}
    {%- do return(meta | selectattr('ingest', 'defined') | list | length > 0) -%}
{%- endmacro %}
