{#-
    What the catalog has of a table or view: `columns` (`name`, `dtype`, `comment`) without Hudi's own, `partitions`, `properties`, and
    its `details` by name, such as Type, Provider, Location.
-#}
{% macro hudi_described(relation) -%}
    {%- set columns, partitions, properties, details, kept = [], [], {}, {}, {'part': ''} -%}
    {%- for row in run_query('describe table extended ' ~ relation) -%}
        {%- set name, value = row[0] or '', row[1] -%}
        {%- if name.startswith('# ') or not name -%}
            {%- do kept.update({'part': kept.part if name == '# col_name' else name}) -%}
        {%- elif kept.part == '' and name not in hudi_own_columns() -%}
            {%- do columns.append({'name': name, 'dtype': value, 'comment': row[2] or ''}) -%}
        {%- elif kept.part == '# Partition Information' -%}
            {%- do partitions.append(name) -%}
        {%- elif name == 'Table Properties' -%}
            {%- for key, text in modules.re.findall('([\\w.\\-]+)=(.*?)(?=, [\\w.\\-]+=|$)', value[1:-1]) -%}
                {%- do properties.update({key: text}) -%}
            {%- endfor -%}
        {%- else -%}
            {%- do details.update({name: value}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do return({'columns': columns, 'partitions': partitions, 'properties': properties, 'details': details}) -%}
{%- endmacro %}

{#- The columns that Hudi adds to each table. -#}
{% macro hudi_own_columns() -%}
    {%- do return([
        '_hoodie_commit_time', '_hoodie_commit_seqno', '_hoodie_record_key', '_hoodie_partition_path', '_hoodie_file_name'
    ]) -%}
{%- endmacro %}
