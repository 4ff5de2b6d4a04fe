{#-
    What a model is built from, as it is now: its text, its settings and the texts of the views that it reads, and of every table
    behind them the version that is there. Two versions that are equal have equal rows. A model that asks for the time, or for
    chance, has other rows in each run.

    `upstreams` is asked before a hook or the model reads anything: what comes meanwhile comes again. It goes by dbt's graph, and
    `upstreams_of_plan` adds what Spark's analysed plan shows besides: tables that are read by their names, or behind a view
    that is no model.
-#}
{% macro upstreams(before=none) -%}
    {%- set found = {'tables': [], 'views': []} -%}
    {%- do _walk_upstreams(model.depends_on.nodes, found) -%}
    {%- do return({'tables': _versions(found.tables, {}, before), 'views': found.views}) -%}
{%- endmacro %}

{% macro upstreams_of_plan(recorded, sql, before=none) -%}
    {%- set sql = hudi_statement(sql) -%}
    {%- set plan = _analysed(sql) -%}
    {%- set views = recorded.views + _relations_in('View \\(`spark_catalog`\\.`([^`]+)`\\.`([^`]+)`', plan) -%}
    {%- set shown = _shown(views | map('string') | map('replace', '`', '') | map('lower') | unique | sort) -%}
    {%- set texts = _texts_of(shown) | join(';') -%}
    {%- set text = local_md5(([model.compiled_code, texts] + _set_by_hooks()) | join(';')) -%}
    {%- set named = _relations_in('Relation spark_catalog\\.`?([^.`\\[]+)`?\\.`?([^`\\[]+)`?\\[', plan)
        + _relations_in('HiveTableRelation \\[`spark_catalog`\\.`([^`]+)`\\.`([^`]+)`', plan) -%}
    {%- set unnamed = modules.re.findall('(?m)^[ :|+-]*((?:Relation \\[|RelationV2|DataSourceV2|LogicalRDD|InMemoryRelation|View \\(`[^`]+`, ).{0,60})', plan) -%}
    {%- if before is not none and before.text == text -%}
        {%- set is_moving = before.moment != '' -%}
    {%- else -%}
        {#- Of a literal such as timestamp 'now' a plan shows the value alone -#}
        {%- set of_views = modules.re.findall('(?s)\\nView Text: (.*?)\\nView Original Text: ', texts) | join -%}
        {%- set is_moving = _asks_for_time(sql ~ plan ~ of_views) or not _is_deterministic(sql) -%}
    {%- endif -%}
    {%- do return({
        'text': text,
        'settings': _settings(),
        'tables': _versions(named, recorded.tables, before),
        'unnamed': unnamed | length,
        'moment': run_started_at.isoformat() if is_moving else '',
        'given': _given_to(shown, 'given'),
        'variables': _given_to(shown, 'variables'),
    }) -%}
{%- endmacro %}

{#-
    The pre-hooks that ran, of those that change the session: a select may be another one by a setting, which Spark also puts in the place of
    `${name}`. What the others write is looked at where it is read.
-#}
{% macro _set_by_hooks() -%}
    {%- set found, words = [], '(?i)(set|reset|use|add|create\\s+(or\\s+replace\\s+)?(temporary\\s+)?function)\\b' -%}
    {%- for sql in graph.nodes.get(model.unique_id, {}).get('hooks_that_ran') or [] -%}
        {%- if modules.re.match(words, modules.re.sub('(?s)^(?:\\s|--[^\n]*\n|/[*].*?[*]/)+', '', sql)) -%}
            {%- do found.append(sql) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do return(found) -%}
{%- endmacro %}

{#- Whether a table behind a model has changed since its last commit; not where that does not tell, as none of Iceberg's does. -#}
{% macro upstreams_moved(relation, node) -%}
    {%- do return(adapter.dispatch('upstreams_moved')(relation, node)) -%}
{%- endmacro %}

{% macro default__upstreams_moved(relation, node) -%}
    {%- do return(false) -%}
{%- endmacro %}

{% macro spark__upstreams_moved(relation, node) -%}
    {%- set recorded = hudi_state(relation_of_text(relation), node.unique_id).recorded -%}
    {%- if recorded is none -%}
        {%- do return(false) -%}
    {%- endif -%}
    {%- do return(upstreams_now(recorded) != recorded) -%}
{%- endmacro %}

{#- What was recorded, with the versions that the tables have now. -#}
{% macro upstreams_now(recorded) -%}
    {%- do return(dict(recorded, tables=_versions(recorded.tables.keys(), {}, recorded))) -%}
{%- endmacro %}

{#- Of relations and of what is recorded already, by names without quotes. Views and what has no version are left out, or recorded. -#}
{% macro _versions(relations, recorded, before) -%}
    {%- set known, versions = (before or {}).get('tables') or {}, dict(recorded) -%}
    {%- set names = relations | map('string') | map('replace', '`', '') | map('lower') | unique | reject('in', versions) | list -%}
    {%- set hudi_tables = _still_hudi(names, known) -%}
    {%- for name in names -%}
        {%- set version = table_version(name, known.get(name), name in hudi_tables) -%}
        {%- if version is not none -%}
            {%- do versions.update({name: version}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do return(versions) -%}
{%- endmacro %}

{#- Which tables are Hudi tables, of those that were: one may be a view by now, or a table of files. -#}
{% macro _still_hudi(names, known) -%}
    {%- set were, are = [], [] -%}
    {%- for name in names if known.get(name, {}).get('instant') -%}
        {%- do were.append(name) -%}
    {%- endfor -%}
    {%- for row in _shown(were) if modules.re.search('(?m)^Provider: hudi$', row['information']) -%}
        {%- do are.append((row[0] ~ '.' ~ row[1]) | lower) -%}
    {%- endfor -%}
    {%- do return(are) -%}
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
        {#- What a comment names (`-- depends_on: {{ ref('...') }}`) need not be there -#}
        {%- elif node.resource_type == 'source' or relation != node.relation_name or load_relation(
            relation_named(node.schema, node.alias)
        ) is not none -%}
            {%- do found.tables.append(relation) -%}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro %}

{#- Spark's analysed plan of a select, as text. As a view it is not planned any further; time travel is in no view. -#}
{% macro _analysed(sql) -%}
    {%- set as_view = '' if hudi_travels(sql) else 'create or replace temporary view ' ~ adapter.quote(model.name ~ '__analysed') ~ ' as ' -%}
    {%- set explained = run_query('explain extended ' ~ as_view ~ sql).columns[0].values()[0] -%}
    {%- do return(explained.partition('== Analyzed Logical Plan ==')[2].partition('== Optimized Logical Plan ==')[0]) -%}
{%- endmacro %}

{% macro _relations_in(pattern, plan) -%}
    {%- set found = [] -%}
    {%- for schema, name in modules.re.findall(pattern, plan) -%}
        {%- do found.append(schema ~ '.' ~ name) -%}
    {%- endfor -%}
    {%- do return(found | unique | list) -%}
{%- endmacro %}

{#-
    Whether Spark holds every function of a select for one that gives the same of the same rows. There is no statement that says
    so; but of a `with` that is read twice, Spark computes twice what is, and keeps for both what is not, by a repartition at its top:
    below a limit stands one of the select's own.
-#}
{% macro _is_deterministic(sql) -%}
    {%- set twice = 'explain extended with probed as (select * from (\n' ~ sql ~ '\n) limit 1) select * from probed union all select * from probed' -%}
    {%- set optimized = run_query(twice).columns[0].values()[0].partition('== Optimized Logical Plan ==')[2] -%}
    {%- do return(modules.re.match('\\s*Union.*\\n:- (Project.*\\n:  \\+- )?Repartition', optimized) is none) -%}
{%- endmacro %}

{#- Spark holds the time for a constant of the statement, also where a text such as 'today' is cast to it. -#}
{% macro _asks_for_time(text) -%}
    {%- set moments = '\\s*(now|today|tomorrow|yesterday)' -%}
    {%- set asks = "\\b(current_date|current_timestamp|localtimestamp|now\\s*\\(|curdate|unix_timestamp\\s*\\(\\s*\\))"
        ~ "|\\b(try_)?(to_)?(date|timestamp)(_ltz|_ntz)?\\s*(\\(\\s*['\"]?|['\"])" ~ moments
        ~ "|\\b(try_)?cast\\(" ~ moments ~ "(\\s+[\\w/:+-]+)?\\s+as (date|timestamp)" -%}
    {%- do return(modules.re.search(asks, text, modules.re.IGNORECASE) is not none) -%}
{%- endmacro %}

{#-
    What of a configuration decides which rows a run looks at, or refuses: `config(...)` is no part of a compiled text. And of the session
    its time zone, by which a select makes dates and texts of timestamps, and what else makes other rows of the same text
    (`_settings_of_session`).
-#}
{% macro _settings() -%}
    {%- set settings = [
        (config.get('meta') or {}).get('affected_by') or [],
        key_columns(config.get('unique_key'), model.unique_id),
        hudi_broken_constraints(),
        run_query('select current_timezone()').columns[0].values()[0],
        _settings_of_session(),
    ] -%}
    {%- do return(local_md5(tojson(settings, sort_keys=true))) -%}
{%- endmacro %}

{#-
    The settings of the session that Spark puts in the place of `${name}` in the model's text, and those by which it computes other values,
    whoever has set them: the profile, `on-run-start`, a hook, or a query of the model.
-#}
{% macro _settings_of_session() -%}
    {%- set named = modules.re.findall('[$][{](?:(?:spark|sparkconf|hivevar|hiveconf):)?([^}]+)[}]', model.compiled_code) -%}
    {%- set computed = 'spark[.]sql[.](?:ansi|legacy|decimalOperations)[.]|spark[.]sql[.](?:caseSensitive|mapKeyDedupPolicy|storeAssignmentPolicy)$' -%}
    {%- set settings = [] -%}
    {%- for row in run_query('set') if row[0] in named or modules.re.match(computed, row[0]) -%}
        {%- do settings.append([row[0], row[1]]) -%}
    {%- endfor -%}
    {%- do return(settings | sort) -%}
{%- endmacro %}

{#-
    The texts of views, with the time zone that each keeps. When a view was made says nothing. What the catalog shows of it has a line for
    each thing, and some of the same beginning may stand in the text itself.
-#}
{% macro _texts_of(shown) -%}
    {%- set texts = [] -%}
    {%- for row in shown -%}
        {%- set head, mark, rest = row['information'].partition('\nView Text: ') -%}
        {%- set text, named, behind = rest.rpartition('\nTable Properties: ') -%}
        {%- set properties, line, columns = behind.partition('\n') -%}
        {%- set zone = modules.re.findall('\\blakehouse[.]zone=[^,\\]]*', properties) if named else [properties] -%}
        {%- do texts.append(
            [modules.re.sub('(?m)^(?:Created Time|Last Access|Created By|Table Properties): .*', '', head), mark, text] | join
            ~ '\n' ~ zone | join ~ line ~ columns
        ) -%}
    {%- endfor -%}
    {%- do return(texts) -%}
{%- endmacro %}

{#- The variables of the command line by which views were made, as each keeps them under a name (`spark__create_view_as`). -#}
{% macro _given_to(shown, name) -%}
    {%- set given = [] -%}
    {%- for row in shown -%}
        {%- for names in modules.re.findall('(?m)^Table Properties: .*?\\blakehouse[.]' ~ name ~ '=([^,\\]]+)', row['information']) -%}
            {%- do given.append(names ~ ' (by which the view ' ~ row[0] ~ '.' ~ row[1] ~ ' was made)') -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- do return(given) -%}
{%- endmacro %}

{#- What the catalog shows of tables and views: schema, name, and `information`. One question for those of a schema. -#}
{% macro _shown(names) -%}
    {%- set by_schema, rows = {}, [] -%}
    {%- for each in names -%}
        {%- set schema, name = each.split('.') -%}
        {%- do by_schema.setdefault(schema, []).append(name) -%}
    {%- endfor -%}
    {%- for schema, own in by_schema.items() -%}
        {%- do rows.extend(run_query('show table extended in ' ~ adapter.quote(schema) ~ " like '" ~ own | join('|') ~ "'").rows) -%}
    {%- endfor -%}
    {%- do return(rows) -%}
{%- endmacro %}
