{#-
    What of a table's configuration cannot be changed in place, as a fingerprint: another one needs another table.
-#}
{% macro hudi_layout() -%}
    {%- set partitions = config.get('partition_by') or [] -%}
    {%- do return(local_md5(tojson([
        hudi_options(), [partitions] if partitions is string else partitions, config.get('location_root')
    ], sort_keys=true))) -%}
{%- endmacro %}

{#- In place of dbt-spark's, with the layout's fingerprint for a Hudi table. -#}
{% macro spark__tblproperties_clause() -%}
    {%- set properties = dict(config.get('tblproperties') or {}) -%}
    {%- if config.get('file_format') == 'hudi' -%}
        {%- do properties.update({'lakehouse.layout': hudi_layout()}) -%}
    {%- endif -%}
    {{- settings_clause('tblproperties', properties) -}}
{%- endmacro %}
