{#-
    In place of dbt's, whose clone is a view here: a copy of main's Iceberg table. The first run of an incremental model upon it is a
    merge then, as it will be on the table itself. One that is there stays, but for `--full-refresh`.
-#}
{% materialization clone, adapter='athena' %}
    {%- set is_table = model.config.materialized in ['table', 'incremental', 'snapshot'] -%}
    {%- if resolve_table_type() != 'iceberg' or not is_table or not defer_relation or not load_relation(defer_relation) -%}
        {%- do log(model.unique_id ~ ': there is no Iceberg table to clone', info=true) -%}
        {{ return({'relations': []}) }}
    {%- endif -%}
    {%- set target_relation, existing = this.incorporate(type='table'), load_relation(this) -%}
    {%- if existing is not none and not flags.FULL_REFRESH -%}
        {%- do log(model.unique_id ~ ': ' ~ existing ~ ' is there already; --full-refresh clones it again', info=true) -%}
        {{ return({'relations': [target_relation]}) }}
    {%- endif -%}
    {%- do athena_require_own(existing) -%}
    {%- set built = target_relation if existing is none else athena_beside(target_relation, 'made') -%}
    {%- call statement('main') -%}
        {{ create_table_as(false, built, 'select * from ' ~ defer_relation) }}
    {%- endcall -%}
    {%- if existing is not none -%}
        {%- do athena_take_name(built, existing) -%}
    {%- endif -%}
    {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
