{#-
    In place of dbt-athena's, which takes the old table away before the new one has its name. A table that is there, with a key, with
    the select's columns and the model's partitions, is brought to its select by one merge: whoever reads it sees it before, or after.
-#}
{% materialization table, adapter='athena', supported_languages=['sql', 'python'] %}
    {%- set existing = load_relation(this) -%}
    {%- if model['language'] == 'sql' and hudi_stays(this, existing) -%}
        {%- do return({'relations': [this.incorporate(type='table')]}) -%}
    {%- endif -%}
    {%- do athena_require_own(existing) -%}
    {%- set sql = hudi_statement(compiled_code) -%}
    {%- set is_merged = model['language'] == 'sql' and resolve_table_type() == 'iceberg' and config.get('unique_key')
        and existing is not none and athena_is_iceberg(existing) and not should_full_refresh() -%}
    {%- if is_merged and athena_has_columns_of(existing, sql)
        and athena_partitions_of(existing) == athena_partition_fields() | map(attribute='name') | list -%}
        {%- do return(athena_merge(existing, sql, 'fail', none)) -%}
    {%- endif -%}
    {%- do return(dbt.materialization_table_athena()) -%}
{% endmaterialization %}
