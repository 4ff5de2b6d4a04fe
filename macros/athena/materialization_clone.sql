{#-
    In place of dbt's, whose clone is a view here: a copy of main's Iceberg table. The first run of an incremental model upon it is a
    merge then, as it will be on the table itself.
-#}
{% materialization clone, adapter='athena' %}
    {%- set is_table = model.config.materialized in ['table', 'incremental', 'snapshot'] -%}
    {%- if resolve_table_type() != 'iceberg' or not is_table or not defer_relation or not load_relation(defer_relation) -%}
        {%- do log(model.unique_id ~ ': there is no Iceberg table to clone', info=true) -%}
        {{ return({'relations': []}) }}
    {%- endif -%}
    {%- set target_relation = this.incorporate(type='table') -%}
    {%- if load_relation(this) is none -%}
        {%- call statement('main') -%}
            {{ create_table_as(false, target_relation, 'select * from ' ~ defer_relation) }}
        {%- endcall -%}
    {%- endif -%}
    {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
