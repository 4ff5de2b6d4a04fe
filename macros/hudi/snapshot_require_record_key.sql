{#-
    A version is a record of a snapshot's table. In a table that somebody else has made, with the key of the source, Hudi would write a new
    version in place of the one that ends.
-#}
{% macro snapshot_require_record_key(existing) -%}
    {%- set key, own = hudi_described(existing).properties.get('primaryKey', ''), hudi_record_key() | join(',') -%}
    {%- if key | lower != own | lower -%}
        {{ exceptions.raise_compiler_error(
            model.unique_id ~ ": got a table with the record key '" ~ key ~ "', expected '" ~ own ~ "': of two versions of a key one would be lost; "
            ~ "give the table another name, run dbt snapshot, which makes one, and insert the versions into that; nothing was written"
        ) }}
    {%- endif -%}
{%- endmacro %}
