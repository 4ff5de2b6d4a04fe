{#-
    In place of dbt-spark's: it compares unique_key with primaryKey as they stand, so that a composite key never
    equals its own option, and it prints a list as a list.
-#}
{% macro spark__options_clause() -%}
    {%- set options = hudi_options() if config.get('file_format') == 'hudi' else config.get('options') -%}
    {{- settings_clause('options', options) -}}
{%- endmacro %}

{#- A clause of names and values, as `create table` takes them; nothing where there are none. -#}
{% macro settings_clause(word, settings) -%}
    {%- if settings -%}
    {{ word }} (
        {%- for name, value in settings.items() %}
        '{{ name }}' = '{{ value }}'{{ ',' if not loop.last }}
        {%- endfor %}
    )
    {%- endif -%}
{%- endmacro %}

{#- The options of the model's Hudi table. One of which partitions are replaced replaces those alone that a run has. -#}
{% macro hudi_options() -%}
    {%- if config.get('grants') -%}
        {{ exceptions.raise_compiler_error(
            model.unique_id ~ ": got grants = " ~ config.get('grants') ~ ", expected none: Spark's SQL has no grant, and each run would fail "
            ~ "behind its own commit; nothing was written"
        ) }}
    {%- endif -%}
    {%- if config.get('sql_header') -%}
        {{ exceptions.raise_compiler_error(
            model.unique_id ~ ": got sql_header = '" ~ config.get('sql_header') | trim ~ "', expected none: Spark runs one statement at a time; "
            ~ "write it as a pre_hook; nothing was written"
        ) }}
    {%- endif -%}
    {%- for name in ['clustered_by', 'buckets'] if config.get(name) -%}
        {{ exceptions.raise_compiler_error(
            model.unique_id ~ ": got " ~ name ~ " = " ~ config.get(name) ~ ", expected the options hoodie.index.type = BUCKET and "
            ~ "hoodie.bucket.index.num.buckets, by which a Hudi table has buckets; nothing was written"
        ) }}
    {%- endfor -%}
    {%- set location_root = config.get('location_root') or '' -%}
    {%- if modules.re.search('[\\s%#?"<>\\[\\]^`{|}\\\\]', location_root) -%}
        {{ exceptions.raise_compiler_error(
            model.unique_id ~ ": got location_root = '" ~ location_root ~ "', expected a path without blanks and without any of "
            ~ '%#?"<>[]^`{|}\\: Hudi finds no table there; nothing was written'
        ) }}
    {%- endif -%}
    {%- set strategy = hudi_strategy() if config.get('materialized') == 'incremental' -%}
    {%- set merged_partitions = config.get('partition_by') if strategy in ['merge', 'microbatch'] else none -%}
    {%- set given = config.get('options') -%}
    {%- if given is none or given is mapping -%}
        {%- set given = dict(_options_among_properties(), **(given or {})) -%}
    {%- endif -%}
    {%- set options = hudi_table_options(given, hudi_record_key(), model.unique_id, merged_partitions) -%}
    {%- if strategy in ['insert_overwrite', 'microbatch'] -%}
        {%- do options.update({'hoodie.datasource.overwrite.mode': 'dynamic'}) -%}
    {%- endif -%}
    {#- A bucket index reads no bloom filter of keys, which takes 440 kB of each file: there is none, and a bulk insert's is for one key -#}
    {%- if options.get('hoodie.index.type') == 'BUCKET' -%}
        {%- do options.setdefault('hoodie.parquet.bloom.filter.enabled', 'false') -%}
        {%- do options.setdefault('hoodie.bloom.index.filter.type', 'SIMPLE') -%}
        {%- do options.setdefault('hoodie.index.bloom.num_entries', '1') -%}
    {%- endif -%}
    {#- Or a bulk insert would write a key of time as a text, and an upsert as a number: a row that changes would be there twice -#}
    {%- if graph.nodes.get(model.unique_id, {}).get('has_key_of_time') -%}
        {%- do options.update({hudi_option_of_times(): 'true'}) -%}
    {%- endif -%}
    {#- Or a value with a slash would be read as two -#}
    {%- if config.get('partition_by') -%}
        {%- do options.setdefault('hoodie.datasource.write.partitionpath.urlencode', 'true') -%}
    {%- endif -%}
    {#- A merge needs no catalog but Spark's, where it would take the columns' comments away -#}
    {%- if config.persist_column_docs() -%}
        {%- do options.setdefault('hoodie.datasource.hive_sync.sync_as_datasource', 'false') -%}
    {%- endif -%}
    {%- do return(options) -%}
{%- endmacro %}

{#- Hudi takes options as properties of the table as well: they are looked at as those are. -#}
{% macro _options_among_properties() -%}
    {%- set found = {} -%}
    {%- for name, value in (config.get('tblproperties') or {}).items()
        if name.startswith('hoodie.') or name in _own_option_names() or _instead_of_option(name) -%}
        {%- do found.update({name: value}) -%}
    {%- endfor -%}
    {%- do return(found) -%}
{%- endmacro %}

{#- The option by which Hudi writes a timestamp of a key in one way, whatever the operation. -#}
{% macro hudi_option_of_times() -%}
    {%- do return('hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled') -%}
{%- endmacro %}
