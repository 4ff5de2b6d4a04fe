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

{#- What makes another version where it is another: that the row is gone, or its values. -#}
{% macro history_tracked(columns) -%}
    {%- set values = ['_is_gone'] -%}
    {%- for column in columns -%}
        {%- do values.append('case when not _is_gone then ' ~ adapter.quote(column) ~ ' end') -%}
    {%- endfor -%}
    {{ _row_of(values) }}
{%- endmacro %}

{#- Rows are compared whole: equal where each value is, and nulls are values. -#}
{% macro _row_of(expressions) -%}
    {{ return(adapter.dispatch('_row_of')(expressions)) }}
{%- endmacro %}

{% macro spark___row_of(expressions) -%}
    struct({{ expressions | join(', ') }})
{%- endmacro %}

{% macro athena___row_of(expressions) -%}
    row({{ expressions | join(', ') }})
{%- endmacro %}
