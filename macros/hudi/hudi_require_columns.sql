{#- What a configuration names must be columns of the model's select: key, ordering fields, partitions, a batch's time. -#}
{% macro hudi_require_columns(columns, model_name) -%}
    {%- set names = columns | map(attribute='name') | list -%}
    {%- set known = names | map('lower') | list -%}
    {%- set options = config.get('options') or {} -%}
    {%- set ordering = options.get('orderingFields') or options.get('preCombineField') -%}
    {%- set named = [
        ('unique_key', key_columns(config.get('unique_key'), model_name)),
        ('partition_by', hudi_partitions()),
        ('event_time', [config.get('event_time')] if model.batch else []),
        ('orderingFields', [ordering] if ordering else []),
        ('affected_by', affected_by() | map(attribute='by') | map('list') | sum(start=[])),
    ] -%}
    {%- for setting, wanted in named -%}
        {#- Hudi finds a column of a key or of a partition by its name as it is written -#}
        {%- for column in wanted if column | lower not in known or (setting in ['unique_key', 'partition_by'] and column not in names) -%}
            {{ exceptions.raise_compiler_error(
                model_name ~ ": got " ~ setting ~ " column '" ~ column ~ "', expected one of " ~ names | join(', ')
            ) }}
        {%- endfor -%}
    {%- endfor -%}
{%- endmacro %}
