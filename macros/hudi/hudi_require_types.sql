{#-
    What Hudi 1.2 would write wrongly, or not at all, is refused before anything is written. That a key has a timestamp is remembered:
    the table needs an option then (`hudi_options`), and no other table is to be built anew for it.
-#}
{% macro hudi_require_types(columns, model_name) -%}
    {%- set key, partitions = hudi_record_key() | map('lower') | list, hudi_partitions() | map('lower') | list -%}
    {%- for column in columns -%}
        {%- set name, type = column.name | lower, column.dtype | lower -%}
        {#- A schema of Hudi is one of Avro, whose names are of letters, of any script, of digits and of _ -#}
        {%- for part in [column.name] + modules.re.findall('[<,]([^<>:,]+):', column.dtype) if not modules.re.fullmatch('[^\\W\\d]\\w*', part) -%}
            {{ exceptions.raise_compiler_error(
                model_name ~ ": got column '" ~ part ~ "', expected a name of letters, digits and _ that begins with no digit: "
                ~ "give it another one in the select; nothing was written"
            ) }}
        {%- endfor -%}
        {%- if name.startswith('_lake_') -%}
            {{ exceptions.raise_compiler_error(
                model_name ~ ": got column '" ~ column.name ~ "', expected a name that does not begin with _lake_, as those of an increment's own "
                ~ "columns do: give it another one in the select; nothing was written"
            ) }}
        {%- endif -%}
        {%- if name.startswith('_hoodie_') -%}
            {{ exceptions.raise_compiler_error(
                model_name ~ ": got column '" ~ column.name ~ "', expected a name that does not begin with _hoodie_: such columns are Hudi's own, "
                ~ "which writes no value of another one, or deletes its row: give it another one in the select; nothing was written"
            ) }}
        {%- endif -%}
        {%- set held, place = _held_type(type), '' -%}
        {%- if name in key and modules.re.match('binary|array<|map<|struct<', type) -%}
            {%- set held, place = 'string', ' in unique_key' -%}
        {%- elif name in partitions and modules.re.match('timestamp|binary|array<|map<|struct<', type) -%}
            {%- set held, place = 'date' if type.startswith('timestamp') else 'string', ' in partition_by' -%}
        {%- endif -%}
        {%- if held != type -%}
            {{ exceptions.raise_compiler_error(
                model_name ~ ": got column '" ~ column.name ~ "' of type " ~ type ~ place ~ ", expected " ~ held
                ~ " or another type that Hudi writes there: cast it in the select; nothing was written"
            ) }}
        {%- elif name in key and type == 'timestamp' -%}
            {%- do graph.nodes[model.unique_id].update(has_key_of_time=true) -%}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro %}

{#- A type that a Hudi table holds, in the place of one that it does not; not of fields that have such a name. -#}
{% macro _held_type(type) -%}
    {%- set held = {'type': type} -%}
    {%- for pattern, instead in [('smallint|tinyint', 'int'), ('timestamp_ntz', 'timestamp'), ('void|interval[a-z ]*', 'string')] -%}
        {%- do held.update({'type': modules.re.sub('(^|[<:,])(?:' ~ pattern ~ ')(?=$|[>,])', '\\1' ~ instead, held.type)}) -%}
    {%- endfor -%}
    {#- A map of Avro has keys of text -#}
    {%- do held.update({'type': modules.re.sub('(^|[<:,])map<(?!string,).*', '\\1map<string,...', held.type)}) -%}
    {%- do return(held.type) -%}
{%- endmacro %}
