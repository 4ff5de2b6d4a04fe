{% macro hudi_table_options(options, unique_key, model_name, partition_by=none) -%}
    {%- set key = key_columns(unique_key, model_name) | join(',') -%}
    {%- if options is not none and options is not mapping -%}
        {{ exceptions.raise_compiler_error(
            model_name ~ ": got options = " ~ options ~ ", expected a mapping of names to values"
        ) }}
    {%- endif -%}
    {%- set options = dict(options or {}) -%}

    {%- set own_names = ['primaryKey', 'type', 'preCombineField', 'orderingFields'] -%}
    {%- for name in options if name not in own_names and not name.startswith('hoodie.') -%}
        {{ exceptions.raise_compiler_error(
            model_name ~ ": got option '" ~ name ~ "', expected one of " ~ own_names | join(', ') ~ ", or hoodie.*"
        ) }}
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

    {#- Hudi's merge fails, or leaves a row in both places, where the row's partition changes. -#}
    {%- for column in ([partition_by] if partition_by is string else partition_by or []) -%}
        {%- if column not in key.split(',') -%}
            {{ exceptions.raise_compiler_error(
                model_name ~ ": got partition_by = '" ~ column ~ "', expected columns of unique_key = '" ~ key
                ~ "': a merge cannot move a row to another partition"
            ) }}
        {%- endif -%}
    {%- endfor -%}

    {%- do options.update({'primaryKey': key}) -%}
    {%- do return(options) -%}
{%- endmacro %}
