{#-
    Makes a table what the model's select is. Readers have the old rows until they have the new ones: where columns and
    layout are as they were, Hudi replaces all rows in one commit; else another table is built beside, and takes the name
    when it is whole, as a first one does. Where the build fails, the old table stays as it was.
-#}
{% macro hudi_rebuild(target, existing, wanted, upstreams=none) -%}
    {%- do hudi_require_keys(wanted, hudi_record_key()) -%}
    {%- set is_overwritten = existing is not none and existing.is_hudi and hudi_is_laid_out(existing, wanted) -%}
    {%- set instant = hudi_instants(existing)[0] if is_overwritten else '' -%}
    {%- do hudi_require_past(existing, instant) -%}
    {%- if upstreams is not none -%}
        {%- do hudi_set_state(upstreams, instant) -%}
    {%- endif -%}
    {%- if is_overwritten -%}
        {%- do hudi_write_as(target, 'upsert') -%}
        {%- call statement('main') -%}
            insert overwrite table {{ target }}
            select {{ hudi_quoted(adapter.get_columns_in_relation(existing) | map(attribute='name')) }}
            from {{ wanted }}
        {%- endcall -%}
        {%- do persist_docs(target, model) -%}
    {%- else -%}
        {%- set built = hudi_beside(target, 'built') -%}
        {%- set given = hudi_beside(target, 'given') -%}
        {%- set is_kept = hudi_has_elements(adapter.get_columns_in_relation(wanted)) -%}
        {%- if is_kept -%}
            {%- do hudi_materialize(given, hudi_select(wanted)) -%}
        {%- endif -%}
        {%- call statement('main') -%}
            {{ hudi_create_sql(built, 'select * from ' ~ given if is_kept else hudi_select(wanted)) }}
        {%- endcall -%}
        {%- if is_kept -%}
            {%- do hudi_drop(given) -%}
        {%- endif -%}
        {%- do persist_docs(built, model) -%}
        {%- do hudi_take_name(built, target, existing) -%}
    {%- endif -%}
    {%- if upstreams is not none -%}
        {%- do hudi_reset_state() -%}
    {%- endif -%}
{%- endmacro %}

{#- Gives a table that is whole the name of the one that is there, which stands aside meanwhile. -#}
{% macro hudi_take_name(built, target, existing) -%}
    {%- set before = hudi_beside(target, 'before') -%}
    {%- if existing is not none and existing.is_view -%}
        {%- do adapter.drop_relation(existing) -%}
    {%- elif existing is not none -%}
        {%- do adapter.rename_relation(existing.incorporate(type='table'), before) -%}
    {%- endif -%}
    {#- As dbt made it: what it finds in the catalog it takes for another table where the name has capitals -#}
    {%- do adapter.rename_relation(built, target.incorporate(dbt_created=true)) -%}
    {%- if existing is not none and not existing.is_view -%}
        {%- do _drop_replaced(before) -%}
        {%- do adapter.drop_relation(before) -%}    {#- dbt forgets it as well -#}
    {%- endif -%}
{%- endmacro %}

{#-
    Drops a table whose name another one has taken. Its files go too where they are the catalog's own, or a model's; those of a table that
    somebody has made at a place of its own stay there, as `drop table` leaves them.
-#}
{% macro _drop_replaced(table) -%}
    {%- set described = hudi_described(table) -%}
    {%- if described.details.get('Type') == 'EXTERNAL' and 'lakehouse.layout' not in described.properties -%}
        {%- do files_remove(table) -%}
        {%- do run_query('drop table if exists ' ~ table) -%}
    {%- else -%}
        {%- do hudi_drop(table) -%}
    {%- endif -%}
{%- endmacro %}

{#-
    Whether some columns have elements of their own. A select may know that none of these is null, and its table would take no row by a
    merge, whose source does not know it: such rows come from a table.
-#}
{% macro hudi_has_elements(columns) -%}
    {%- for column in columns if modules.re.match('(array|map|struct)<', column.dtype | lower) -%}
        {%- do return(true) -%}
    {%- endfor -%}
    {%- do return(false) -%}
{%- endmacro %}

{% macro hudi_is_laid_out(existing, wanted) -%}
    {%- set layout = [] -%}
    {%- for property in run_query('show tblproperties ' ~ existing) if property[0] == 'lakehouse.layout' -%}
        {%- do layout.append(property[1]) -%}
    {%- endfor -%}
    {#- Where a run replaces partitions, `insert overwrite` leaves the others -#}
    {%- set replaces_all = 'hoodie.datasource.overwrite.mode' not in hudi_options() -%}
    {%- do return(hudi_has_columns_of(existing, wanted) and layout == [hudi_layout()] and replaces_all) -%}
{%- endmacro %}

{#- Whether two relations have the same columns, in whatever order. -#}
{% macro hudi_has_columns_of(existing, wanted) -%}
    {%- do return(hudi_types(adapter.get_columns_in_relation(existing)) == hudi_types(adapter.get_columns_in_relation(wanted))) -%}
{%- endmacro %}

{#- As dbt-spark's create_table_as, but for the place: two tables of one model stand side by side. -#}
{% macro hudi_create_sql(relation, select) -%}
    {%- set location_root = config.get('location_root') -%}
    create table {{ relation }}
    using hudi
    {{ options_clause() }}
    {{ tblproperties_clause() }}
    {{ partition_cols(label='partitioned by') }}
    {%- if location_root is not none %}
    location '{{ location_root }}/{{ relation.identifier }}__{{ place_of_run() }}'
    {%- endif %}
    {{ comment_clause() }}
    as
    {{ select }}
{%- endmacro %}

{#- The columns in the order of the contract, where there is one. -#}
{% macro hudi_select(wanted) -%}
    {%- set select = 'select * from ' ~ wanted -%}
    {%- do return(get_select_subquery(select) if config.get('contract').enforced else select) -%}
{%- endmacro %}
