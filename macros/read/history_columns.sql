{#- The columns of the source in a table of changes, without the key; a name the history adds itself is refused. -#}
{% macro history_columns(changes, key, columns=none, added=none) %}
    {%- set added = added or [
        'valid_from', 'valid_to', 'known_from', 'known_to', 'position_from', 'position_to', 'is_current', 'unknown_columns',
    ] -%}
    {%- set names = [] -%}
    {%- if columns is not none -%}
        {%- do names.extend(columns) -%}
    {%- elif execute -%}
        {%- for column in adapter.get_columns_in_relation(changes) if not column.name.startswith(('__', '_hoodie_')) -%}
            {%- do names.append(column.name) -%}
        {%- endfor -%}
    {%- endif -%}
    {%- for name in names + key if name in added -%}
        {%- do exceptions.raise_compiler_error(
            changes ~ ": got a column '" ~ name ~ "', a name the history adds itself; expected: columns=[...] without it, "
            ~ "or the changes as a subquery that renames it"
        ) -%}
    {%- endfor -%}
    {%- do return(names | reject('in', key) | list) -%}
{% endmacro %}
