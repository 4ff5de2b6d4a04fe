{% macro count_true(columns) -%}
    {%- if columns is string or columns is not sequence or not columns -%}
        {{ exceptions.raise_compiler_error(
            "count_true: got columns = " ~ columns ~ ", expected a list of at least one boolean column"
        ) }}
    {%- endif -%}
    {%- for column in columns %}
        {{ '+ ' if not loop.first }}coalesce(cast({{ column }} as int), 0)
    {%- endfor %}
{%- endmacro %}
