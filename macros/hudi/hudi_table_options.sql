{% macro hudi_table_options(options, unique_key, model_name, partition_by=none) -%}
    {%- set key = key_columns(unique_key, model_name) | join(',') -%}
    {%- if options is not none and options is not mapping -%}
        {{ exceptions.raise_compiler_error(
            model_name ~ ": got options = " ~ options ~ ", expected a mapping of names to values"
        ) }}
    {%- endif -%}
    {%- set options = dict(options or {}) -%}

    {%- set own_names = _own_option_names() -%}
    {%- for name, value in options.items() if name not in own_names -%}
        {%- set expected = _instead_of_option(name) -%}
        {%- if expected -%}
            {{ exceptions.raise_compiler_error(model_name ~ ": got option " ~ name ~ " = '" ~ value ~ "', expected " ~ expected) }}
        {%- endif -%}
        {%- if not name.startswith('hoodie.') -%}
            {{ exceptions.raise_compiler_error(
                model_name ~ ": got option '" ~ name ~ "', expected one of " ~ own_names | join(', ') ~ ", or hoodie.*"
            ) }}
        {%- endif -%}
    {%- endfor -%}

    {%- if 'orderingFields' in options and 'preCombineField' in options -%}
        {{ exceptions.raise_compiler_error(
            model_name ~ ": got options orderingFields and preCombineField, expected one of them: they are two names of one setting"
        ) }}
    {%- endif -%}

    {%- set declared_key = options.get('primaryKey', key) -%}
    {%- if declared_key is not string -%}
        {%- set declared_key = declared_key | join(',') -%}
    {%- endif -%}
    {%- if declared_key | replace(' ', '') != key -%}
        {{ exceptions.raise_compiler_error(
            model_name ~ ": got option primaryKey = '" ~ declared_key ~ "', expected '" ~ key
            ~ "', the model's unique_key; leave the option out"
        ) }}
    {%- endif -%}

    {%- if options.get('type', 'cow') not in ['cow', 'mor'] -%}
        {{ exceptions.raise_compiler_error(
            model_name ~ ": got option type = '" ~ options['type'] ~ "', expected one of cow, mor"
        ) }}
    {%- endif -%}

    {%- set buckets = options.get('hoodie.bucket.index.num.buckets') -%}
    {%- if buckets is not none and (buckets | int(0)) < 1 -%}
        {{ exceptions.raise_compiler_error(
            model_name ~ ": got option hoodie.bucket.index.num.buckets = '" ~ buckets ~ "', expected a whole number above 0"
        ) }}
    {%- endif -%}
    {%- if options.get('hoodie.index.type') == 'BUCKET' and buckets is none -%}
        {{ exceptions.raise_compiler_error(
            model_name ~ ": got option hoodie.index.type = 'BUCKET' without hoodie.bucket.index.num.buckets, "
            ~ "expected a number of buckets: Hudi's default is 256 files"
        ) }}
    {%- endif -%}

    {#- A merge moves a row itself, from one partition to another: an index over all partitions finds it in both. -#}
    {%- set index = options.get('hoodie.index.type', 'SIMPLE') -%}
    {%- if partition_by and index not in ['BUCKET', 'SIMPLE', 'BLOOM'] -%}
        {{ exceptions.raise_compiler_error(
            model_name ~ ": got option hoodie.index.type = '" ~ index ~ "' with partition_by, expected one of BUCKET, SIMPLE, BLOOM"
        ) }}
    {%- endif -%}

    {#- What the model says is right, also where its ordering fields go back: Hudi would leave the row as it is. -#}
    {%- set ordering = options.get('orderingFields', options.get('preCombineField')) -%}
    {%- if ordering is not none -%}
        {%- if ordering is not string or ',' in ordering -%}
            {{ exceptions.raise_compiler_error(
                model_name ~ ": got option orderingFields = " ~ ordering ~ ", expected one column: Hudi's SQL takes no more"
            ) }}
        {%- endif -%}
        {%- do options.setdefault('hoodie.record.merge.mode', 'COMMIT_TIME_ORDERING') -%}
    {%- endif -%}
    {%- set order = options.get('hoodie.record.merge.mode', 'COMMIT_TIME_ORDERING') -%}
    {%- if order != 'COMMIT_TIME_ORDERING' -%}
        {{ exceptions.raise_compiler_error(
            model_name ~ ": got option hoodie.record.merge.mode = '" ~ order
            ~ "', expected COMMIT_TIME_ORDERING: what a run writes is what the model says"
        ) }}
    {%- endif -%}

    {%- do options.update({'primaryKey': key}) -%}
    {%- do return(options) -%}
{%- endmacro %}

{#- The options that Hudi's SQL has by names of their own. -#}
{% macro _own_option_names() -%}
    {%- do return(['primaryKey', 'type', 'preCombineField', 'orderingFields']) -%}
{%- endmacro %}

{#-
    What is expected in place of an option of Hudi's; none where it may be given. By its own names Hudi would take a setting past the
    checks of the one that the model has, and others would keep a row that the model gives from being written as it is.
-#}
{% macro _instead_of_option(name) -%}
    {%- set names = {
        'unique_key of the model': ['hoodie.datasource.write.recordkey.field', 'hoodie.table.recordkey.fields'],
        'partition_by of the model': ['hoodie.datasource.write.partitionpath.field', 'hoodie.table.partition.fields'],
        'the option type': ['hoodie.datasource.write.table.type', 'hoodie.table.type'],
        'the option orderingFields': [
            'hoodie.datasource.write.precombine.field', 'hoodie.table.precombine.field', 'hoodie.table.ordering.fields'
        ],
        'none: under any other name than its own a merge would put the table in the place of what has that name': [
            'hoodie.datasource.hive_sync.table.strategy', 'hoodie.datasource.hive_sync.table', 'hoodie.datasource.hive_sync.database',
            'hoodie.datasource.hive_sync.skip_ro_suffix',
        ],
        'none: what a run writes is what the model says': [
            'hoodie.datasource.write.payload.class', 'hoodie.compaction.payload.class', 'hoodie.table.payload.class',
            'hoodie.datasource.write.record.merger.impls', 'hoodie.write.record.merge.custom.implementation.classes',
            'hoodie.datasource.insert.dup.policy', 'hoodie.populate.meta.fields',
            'payloadclass', 'recordmergemode', 'recordmergestrategyid',
        ],
    } -%}
    {%- for expected, own in names.items() if name | lower in own -%}
        {%- do return(expected) -%}
    {%- endfor -%}
    {%- do return(none) -%}
{%- endmacro %}
