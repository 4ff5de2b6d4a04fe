{#-
    What of a table's configuration cannot be changed in place, as a fingerprint: another one needs another table. So do
    comments of columns where no merge ever writes to the table (see `spark__persist_docs`).
-#}
{% macro hudi_layout() -%}
    {%- set layout = [hudi_options(), hudi_partitions(), config.get('location_root')] -%}
    {%- if config.persist_column_docs() and model.config.materialized == 'table' -%}
        {%- do layout.append(hudi_descriptions()) -%}
    {%- endif -%}
    {%- do return(local_md5(tojson(layout, sort_keys=true))) -%}
{%- endmacro %}

{#- In place of dbt-spark's, with the layout's fingerprint for a Hudi table. -#}
{% macro spark__tblproperties_clause() -%}
    {%- set properties = dict(config.get('tblproperties') or {}) -%}
    {%- if config.get('file_format') == 'hudi' -%}
        {%- for name in _options_among_properties() -%}
            {%- do properties.pop(name) -%}
        {%- endfor -%}
        {%- do properties.update({'lakehouse.layout': hudi_layout()}) -%}
    {%- endif -%}
    {{- settings_clause('tblproperties', properties) -}}
{%- endmacro %}
