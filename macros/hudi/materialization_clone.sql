{#-
    In place of dbt-spark's, which clones Delta tables only: a copy of a Hudi table, with what its last commit says of its
    upstreams. The first run of an incremental model upon it is an increment then, as it will be on the table itself.
-#}
{% materialization clone, adapter='spark' %}
    {%- set is_table = model.config.materialized in ['table', 'incremental', 'snapshot'] -%}
    {%- if config.get('file_format') != 'hudi' or not is_table -%}
        {%- do log(model.unique_id ~ ': no Hudi table, and not cloned', info=true) -%}
        {{ return({'relations': []}) }}
    {%- elif not defer_relation or not load_relation(defer_relation) -%}
        {%- do log(model.unique_id ~ ': there is no table to clone', info=true) -%}
        {{ return({'relations': []}) }}
    {%- endif -%}
    {%- set target_relation = this.incorporate(type='table') -%}
    {%- set existing = hudi_present(this) -%}
    {%- if existing is none or flags.FULL_REFRESH -%}
        {%- set state = hudi_state(defer_relation).recorded -%}
        {%- if state is not none -%}
            {%- do hudi_set_state(state) -%}
        {%- endif -%}
        {%- set present_columns = adapter.get_columns_in_relation(defer_relation) -%}
        {%- do hudi_require_types(present_columns, model.unique_id) -%}
        {%- set columns = hudi_quoted(present_columns | map(attribute='name')) -%}
        {%- set built = hudi_beside(target_relation, 'built') -%}
        {%- call statement('main') -%}
            {{ hudi_create_sql(built, 'select ' ~ columns ~ ' from ' ~ defer_relation) }}
        {%- endcall -%}
        {%- do hudi_take_name(built, target_relation, existing) -%}
        {%- if state is not none -%}
            {%- do hudi_reset_state() -%}
        {%- endif -%}
    {%- endif -%}
    {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
