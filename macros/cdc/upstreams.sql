{#-
    What a model is built from, as it is now: its text and that of the views it reads, and of every table the version
    that is there. Two versions that are equal have equal rows. A text that asks for the time, or for chance, has other rows
    in each run.
-#}
{% macro upstreams() -%}
    {%- set found = {'tables': {}, 'views': []} -%}
    {%- do _walk_upstreams(model.depends_on.nodes, found) -%}
    {%- set texts = [model.compiled_code] -%}
    {%- for view in found.views | unique | sort -%}
        {%- do texts.append(run_query('show create table ' ~ view).columns[0].values()[0]) -%}
    {%- endfor -%}
    {#- When a view was made anew says nothing -#}
    {%- set text = modules.re.sub("'transient_lastDdlTime' = '\\d+'", '', texts | join(';')) -%}
    {%- set moving = '\\b(current_date|current_timestamp|localtimestamp|now\\s*\\(|curdate|rand\\s*\\(|randn\\s*\\(|uuid\\s*\\(|unix_timestamp\\s*\\(\\s*\\))' -%}
    {%- set is_moving = modules.re.search(moving, text, modules.re.IGNORECASE) is not none -%}
    {%- do return({
        'text': local_md5(text), 'tables': found.tables, 'moment': run_started_at.isoformat() if is_moving else ''
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
        {%- elif relation not in found.tables -%}
            {%- do found.tables.update({relation: table_version(relation)}) -%}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro %}
