{#-
    One row of each element of a JSON array of objects: the columns to keep, the element's place from 1, and its fields.
    Strict on both engines: a text that is no such array, or a value that is not of its type, fails the query.
-#}
{% macro json_array_rows(relation, json_column, fields, keep=[], outer=false) -%}
    {%- do _require_json_fields(relation, fields) -%}
    {%- set names = (keep + ['position'] + fields.keys() | list) | map('lower') | list -%}
    {%- if keep is string or names | unique | list | length < names | length -%}
        {{ exceptions.raise_compiler_error(
            relation ~ ": got keep = " ~ keep ~ " and fields = " ~ fields.keys() | list
            ~ ", expected lists of different names, none of them 'position'"
        ) }}
    {%- endif -%}
    {{ return(adapter.dispatch('json_array_rows')(relation, _json_text(json_column), fields, keep, outer)) }}
{%- endmacro %}

{% macro _require_json_fields(told_of, fields) -%}
    {%- set types = 'string|boolean|int|bigint|double|date|timestamp|decimal\\(\\d+, *\\d+\\)' -%}
    {%- if fields is not mapping or not fields -%}
        {{ exceptions.raise_compiler_error(
            told_of ~ ": got fields = " ~ fields ~ ", expected a mapping of fields to their types, at least one"
        ) }}
    {%- endif -%}
    {%- for field, type in fields.items() if not modules.re.match('(' ~ types ~ ')$', type) or modules.re.search('["\'`]', field) -%}
        {{ exceptions.raise_compiler_error(
            told_of ~ ": got field '" ~ field ~ "' of type '" ~ type ~ "', expected a name without quotes, and string, boolean, int, "
            ~ "bigint, double, date, timestamp or decimal(p, s)"
        ) }}
    {%- endfor -%}
{%- endmacro %}

{#- The words null and nothing say the same as a null. -#}
{% macro _json_text(json_column) -%}
    nullif(nullif(trim({{ adapter.quote(json_column) }}), ''), 'null')
{%- endmacro %}

{% macro _spark_json_elements(fields) -%}
    elements array<struct<
        {%- for field, type in fields.items() %}{{ adapter.quote(field) }}: {{ type }}{{ ', ' if not loop.last }}{% endfor -%}
    >>
{%- endmacro %}

{#-
    Spark takes an object for an array of one, and passes over what stands behind an array: not where the array is a field.
    Types are given to the parser: of a decimal's text it would make a double on the way.
-#}
{% macro spark__json_array_rows(relation, text, fields, keep, outer) -%}
    select
        {%- for column in keep %}
        {{ adapter.quote(column) }},
        {%- endfor %}
        _at + 1 as position,
        {%- for field in fields %}
        _element.{{ adapter.quote(field) }}{{ ',' if not loop.last }}
        {%- endfor %}
    from {{ relation }}
    lateral view{{ ' outer' if outer }} posexplode(
        from_json(
            '{"elements":' || {{ text }} || '}',
            '{{ _spark_json_elements(fields) }}',
            map('mode', 'FAILFAST')
        ).elements
    ) as _at, _element
{%- endmacro %}

{#- Only a text is cast: Trino cannot cast a null that it knows of when it plans, such as one of a unit test. -#}
{% macro athena__json_array_rows(relation, text, fields, keep, outer) -%}
    select
        {%- for column in keep %}
        {{ adapter.quote(column) }},
        {%- endfor %}
        cast(_at as integer) as position,
        {%- for field, type in fields.items() %}
        {{ _athena_json_value("element_at(_element, '" ~ field ~ "')", type) }} as {{ adapter.quote(field) }}{{ ',' if not loop.last }}
        {%- endfor %}
    from {{ relation }}
    {{ 'left' if outer else 'cross' }} join unnest(
        case when {{ text }} is not null then cast(json_parse({{ text }}) as array(map(varchar, json))) end
    ) with ordinality as _elements (_element, _at){{ ' on true' if outer }}
{%- endmacro %}

{#- By way of its text, 1.5 is no integer; directly it would be rounded. A json cannot become a date at all. -#}
{% macro _athena_json_value(value, type) -%}
    {%- if type == 'string' -%}
        coalesce(json_extract_scalar({{ value }}, '$'), nullif(json_format({{ value }}), 'null'))
    {%- elif type == 'timestamp' -%}
        cast(from_iso8601_timestamp(replace(cast({{ value }} as varchar), ' ', 'T')) at time zone 'UTC' as timestamp(3))
    {%- elif type == 'double' or type.startswith('decimal') -%}
        cast({{ value }} as {{ type }})
    {%- else -%}
        cast(cast({{ value }} as varchar) as {{ 'integer' if type == 'int' else type }})
    {%- endif -%}
{%- endmacro %}
