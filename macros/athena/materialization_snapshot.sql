{#-
    dbt-athena's, with a look at what it does not look at: a snapshot that is there keeps its versions where a command reads no rows, or
    some, of the upstreams; a column keeps its type. Its merge ends the versions without `dbt_valid_to`
    alone, and takes the parts of a key for columns of the snapshot.
-#}
{% materialization snapshot, adapter='athena' %}
    {%- set existing = load_relation(this) -%}
    {#- Also with --full-refresh: dbt never builds a snapshot anew -#}
    {%- if hudi_stays(this, existing, is_replaced=false) -%}
        {%- do return({'relations': [this.incorporate(type='table')]}) -%}
    {%- endif -%}
    {%- set renamed = [] -%}
    {%- for name in ['dbt_valid_from', 'dbt_valid_to', 'dbt_scd_id', 'dbt_updated_at', 'dbt_is_deleted']
        if (config.get('snapshot_meta_column_names') or {})[name] -%}
        {%- do renamed.append(name) -%}
    {%- endfor -%}
    {%- for setting, is_refused, instead in [
        ('dbt_valid_to_current', config.get('dbt_valid_to_current'), 'none, which leaves it null: no version would ever end'),
        ('snapshot_meta_column_names', renamed, 'none: its second run would fail'),
        ('unique_key', (config.get('unique_key') is not string), 'one column, as surrogate_key makes of several: the third run would fail'),
    ] if is_refused -%}
        {{ exceptions.raise_compiler_error(
            model.unique_id ~ ": got " ~ setting ~ " = " ~ config.get(setting) ~ ", expected on Athena " ~ instead
        ) }}
    {%- endfor -%}
    {%- if existing is not none -%}
        {%- set own = adapter.get_columns_in_relation(existing) | map(attribute='name') | map('lower') | list -%}
        {%- set wanted = get_column_schema_from_query(model['compiled_code']) | map(attribute='name') | map('lower') | list -%}
        {%- set changed = athena_changed_types(existing, model['compiled_code'], wanted | select('in', own) | list) -%}
        {%- if changed -%}
            {{ exceptions.raise_compiler_error(
                model.unique_id ~ ": got columns " ~ changed | join(', ') ~ " from its select, expected the snapshot's types; "
                ~ "cast them in the select, or give them other names; nothing was written"
            ) }}
        {%- endif -%}
    {%- endif -%}
    {%- do return(dbt.materialization_snapshot_athena()) -%}
{% endmaterialization %}

{#- dbt's, of rows whose keys were looked at: behind the pre-hooks, which may have written them. The first build. -#}
{% macro athena__build_snapshot_table(strategy, sql) -%}
    {%- do snapshot_require_keys(model['compiled_code']) -%}
    {{- dbt.default__build_snapshot_table(strategy, sql) -}}
{%- endmacro %}

{#- And each later one. -#}
{% macro athena__snapshot_staging_table(strategy, source_sql, target_relation) -%}
    {%- do snapshot_require_keys(model['compiled_code']) -%}
    {{- dbt.default__snapshot_staging_table(strategy, source_sql, target_relation) -}}
{%- endmacro %}
