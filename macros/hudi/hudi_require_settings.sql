{#-
    What a Hudi table was made with is what it is written with: another `unique_key`, `partition_by`, type or index needs another
    table. Returns what the catalog has of it (`hudi_described`), for what comes next.
-#}
{% macro hudi_require_settings(existing) -%}
    {%- set described = hudi_described(existing) -%}
    {%- set options, properties = hudi_options(), described.properties -%}
    {%- set now = {
        'unique_key': hudi_record_key() | join(', '),
        'partition_by': hudi_partitions() | join(', '),
        'options.type': options.get('type', 'cow'),
        'options.hoodie.index.type': options.get('hoodie.index.type', ''),
        'options.hoodie.bucket.index.num.buckets': options.get('hoodie.bucket.index.num.buckets', ''),
    } -%}
    {%- set then = {
        'unique_key': properties.get('primaryKey', '').split(',') | join(', '),
        'partition_by': described.partitions | join(', '),
        'options.type': properties.get('type', 'cow'),
        'options.hoodie.index.type': properties.get('hoodie.index.type', ''),
        'options.hoodie.bucket.index.num.buckets': properties.get('hoodie.bucket.index.num.buckets', ''),
    } -%}
    {%- for setting, value in now.items() if value | string | lower != then[setting] | lower -%}
        {{ exceptions.raise_compiler_error(
            model.unique_id ~ ": got " ~ setting ~ " = '" ~ value ~ "', expected '" ~ then[setting] ~ "', with which its table was made; "
            ~ "dbt run --full-refresh makes it anew; nothing was written"
        ) }}
    {%- endfor -%}
    {#- Of a table that somebody else has made Hudi would keep the row with the greater value, or combine both -#}
    {%- set orders = ['preCombineField', 'orderingFields'] | select('in', properties) | list -%}
    {%- set is_ordered = orders and properties.get('hoodie.record.merge.mode') != 'COMMIT_TIME_ORDERING' -%}
    {%- set payloads = ['payloadClass', 'recordMergeMode', 'recordMergeStrategyId'] | select('in', properties) | list -%}
    {%- for name in payloads + (orders if is_ordered else []) -%}
        {{ exceptions.raise_compiler_error(
            model.unique_id ~ ": got a table with " ~ name ~ " = '" ~ properties[name] ~ "', expected one that holds each row as the model gives it; "
            ~ "dbt run --full-refresh makes it anew; nothing was written"
        ) }}
    {%- endfor -%}
    {#- Tables of earlier versions of the project: a row that changes would be there twice, where a run looks for its key -#}
    {%- set looked_for = hudi_record_key() | map('lower') | list if hudi_strategy() in ['merge', 'microbatch'] else [] -%}
    {%- for column in described.columns if column.dtype == 'timestamp' and column.name | lower in looked_for -%}
        {%- if properties.get(hudi_option_of_times()) != 'true' -%}
            {{ exceptions.raise_compiler_error(
                model.unique_id ~ ": got a table with the timestamp " ~ column.name ~ " in unique_key, expected one that was made with "
                ~ hudi_option_of_times() ~ "; dbt run --full-refresh makes it anew; nothing was written"
            ) }}
        {%- endif -%}
    {%- endfor -%}
    {%- do return(described) -%}
{%- endmacro %}
