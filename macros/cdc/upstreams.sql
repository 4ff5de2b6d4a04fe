{#-
    What a model is built from, as it is now: its text and that of the views it reads, and of every table the version
    that is there. Two versions that are equal have equal rows. A text that asks for the time, or for chance, has other rows
    in each run.
-#}
{% macro upstreams(before=none) -%}
    {%- set found = {'tables': [], 'views': []} -%}
    {%- do _walk_upstreams(model.depends_on.nodes, found) -%}
    {%- set known, tables = (before or {}).get('tables') or {}, {} -%}
    {%- for relation in found.tables | unique -%}
        {%- do tables.update({relation: table_version(relation, known.get(relation))}) -%}
    {%- endfor -%}
    {%- set text = ([model.compiled_code] + _texts_of(found.views | unique | sort)) | join(';') -%}
    {%- set moving = '\\b(current_date|current_timestamp|localtimestamp|now\\s*\\(|curdate|rand\\s*\\(|randn\\s*\\(|uuid\\s*\\(|unix_timestamp\\s*\\(\\s*\\))' -%}
    {%- set is_moving = modules.re.search(moving, text, modules.re.IGNORECASE) is not none -%}
    {%- do return({
        'text': local_md5(text), 'tables': tables, 'moment': run_started_at.isoformat() if is_moving else ''
    }) -%}
{%- endmacro %}

{% macro _walk_upstreams(ids, found) -%}
    {%- for id in ids -%}
        {%- set node = graph.nodes.get(id) or graph.sources.get(id) -%}
        {%- set relation = relation_of(node) -%}
        {%- set materialized = (node.get('config') or {}).get('materialized') -%}
        {%- if materialized in ['view', 'ephemeral'] -%}
            {%- if materialized == 'view' -%}
                {%- do found.views.append(relation) -%}
            {%- endif -%}
            {%- do _walk_upstreams(node.depends_on.nodes, found) -%}
        {%- else -%}
            {%- do found.tables.append(relation) -%}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro %}

{#- The texts of views: one question for those of a schema. When a view was made says nothing. -#}
{% macro _texts_of(views) -%}
    {%- set by_schema, texts = {}, [] -%}
    {%- for view in views -%}
        {%- set schema, name = hudi_name(view).split('.') -%}
        {%- do by_schema.setdefault(schema, []).append(name) -%}
    {%- endfor -%}
    {%- for schema, names in by_schema.items() -%}
        {%- set told = run_query('show table extended in ' ~ adapter.quote(schema) ~ " like '" ~ names | join('|') ~ "'") -%}
        {%- for information in told.columns['information'].values() -%}
            {%- do texts.append(modules.re.sub('(Created Time|Last Access|Created By|Table Properties): .*', '', information)) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- do return(texts) -%}
{%- endmacro %}
