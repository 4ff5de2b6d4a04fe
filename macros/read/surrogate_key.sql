{#-
    A key of text from the values of columns, the same on Spark and Athena. Each value is written with its length before
    it, a null as a dash, so that no two rows of values are written alike. Texts of other types are made here where the
    engines write them differently; those of floating point numbers cannot be.
-#}
{% macro surrogate_key(columns) -%}
    {%- if columns is not mapping or not columns -%}
        {{ exceptions.raise_compiler_error(
            "surrogate_key: got columns = " ~ columns ~ ", expected a mapping of columns to their types, at least one"
        ) }}
    {%- endif -%}
    {%- set written = [] -%}
    {%- for column, type in columns.items() -%}
        {%- set scale = modules.re.match('decimal\\(\\d+, *(\\d+)\\)$', type) -%}
        {#- With more digits Spark writes a small one as 1E-7 -#}
        {%- if type not in ['string', 'boolean', 'tinyint', 'smallint', 'int', 'bigint', 'date', 'timestamp']
            and not (scale and scale.group(1) | int <= 6) -%}
            {{ exceptions.raise_compiler_error(
                "surrogate_key: got the type '" ~ type ~ "' of column '" ~ column ~ "', expected string, boolean, tinyint, smallint, "
                ~ "int, bigint, date, timestamp, or decimal with a scale of at most 6"
            ) }}
        {%- endif -%}
        {%- set text = _key_text(adapter.quote(column), type) -%}
        {%- set length = 'cast(length(' ~ text ~ ') as ' ~ type_string() ~ ')' -%}
        {%- do written.append("coalesce(" ~ length ~ " || ':' || " ~ text ~ ", '-')") -%}
    {%- endfor -%}
    {{ hash(written | join(' || ')) }}
{%- endmacro %}

{% macro _key_text(column, type) -%}
    {%- if type == 'timestamp' -%}
        {{ adapter.dispatch('_key_text_of_timestamp')(column) }}
    {%- elif type.startswith('decimal') or type == 'date' -%}
        cast(cast({{ column }} as {{ type }}) as {{ type_string() }})
    {%- else -%}
        cast({{ column }} as {{ type_string() }})
    {%- endif -%}
{%- endmacro %}

{% macro spark___key_text_of_timestamp(column) -%}
    date_format({{ column }}, 'yyyy-MM-dd HH:mm:ss.SSSSSS')
{%- endmacro %}

{% macro athena___key_text_of_timestamp(column) -%}
    cast(cast({{ column }} as timestamp(6)) as varchar)
{%- endmacro %}
