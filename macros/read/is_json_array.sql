{#-
    Whether `json_array_rows` reads a column's text: true of a JSON array of objects whose fields are of their types, and of
    what has no elements. Never null. A model that reads only such texts has the others neither lost nor in its way.
-#}
{% macro is_json_array(json_column, fields) -%}
    {%- do _require_json_fields(json_column, fields) -%}
    {{ return(adapter.dispatch('is_json_array')(_json_text(json_column), fields)) }}
{%- endmacro %}

{#- The parser keeps a text that it cannot read to its end, however much it has understood of it. -#}
{% macro spark__is_json_array(text, fields) -%}
    from_json(
        '{"elements":' || {{ text }} || '}',
        '{{ _spark_json_elements(fields) }}, _lake_corrupt string',
        map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '_lake_corrupt')
    )._lake_corrupt is null
{%- endmacro %}

{% macro athena__is_json_array(text, fields) -%}
    coalesce(
        all_match(
            try(cast(json_parse({{ text }}) as array(map(varchar, json)))),
            _element -> true
            {%- for field, type in fields.items() %}
            {%- set value = "element_at(_element, '" ~ field ~ "')" %}
                and (
                    {{ value }} is null
                    or json_format({{ value }}) = 'null'
                    or try({{ _athena_json_value(value, type) }}) is not null
                )
            {%- endfor %}
        ),
        {{ text }} is null
    )
{%- endmacro %}
