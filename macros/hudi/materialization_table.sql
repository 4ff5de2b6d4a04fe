{#-
    In place of dbt-spark's for Hudi tables: that one drops the table before it builds it anew. Also before it finds that neither a session
    nor a Thrift server runs a model in Python, which dbt refuses here.
-#}
{% materialization table, adapter='spark', supported_languages=['sql'] %}
    {%- if config.get('file_format') != 'hudi' -%}
        {%- set existing = hudi_present(this) -%}
        {%- if hudi_stays(this, existing) -%}
            {%- do return({'relations': [this]}) -%}
        {%- elif files_are_built_beside(existing) -%}
            {%- do return(build_beside(existing, compiled_code)) -%}
        {%- endif -%}
        {%- do return(dbt.materialization_table_spark()) -%}
    {%- endif -%}
    {%- set target_relation = this.incorporate(type='table') -%}
    {%- if hudi_reads_a_part() and hudi_stays(target_relation, hudi_present(this)) -%}
        {%- do hudi_drop_wanted(target_relation, hudi_source_view(target_relation, compiled_code), compiled_code) -%}
        {%- do return({'relations': [target_relation]}) -%}
    {%- endif -%}

    {{ run_hooks(pre_hooks) }}

    {%- set existing = hudi_present(this) -%}
    {%- set wanted = hudi_source_view(target_relation, compiled_code) -%}
    {%- do hudi_rebuild(target_relation, existing, wanted) -%}
    {%- do hudi_drop_wanted(target_relation, wanted, compiled_code) -%}
    {%- do apply_grants(target_relation, config.get('grants'), should_revoke(existing, full_refresh_mode=True)) -%}

    {{ run_hooks(post_hooks) }}

    {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
