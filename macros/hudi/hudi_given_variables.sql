{#-
    Variables of the command line (`--vars`) that a model's text asks for, or that of a view or ephemeral model which it reads, or the
    schema of a source. A commit keeps their names, among what it tells of the upstreams (`given`), and so does a view.
-#}
{% macro hudi_given_variables() -%}
    {%- set given, asked = hudi_variables(), [] -%}
    {%- if given -%}
        {%- set codes = _raw_codes(model) | join('\n') -%}
        {%- for name in given -%}
            {%- if modules.re.search("\\bvar\\s*\\(\\s*['\"]" ~ modules.re.escape(name) ~ "['\"]", codes) -%}
                {%- do asked.append(name) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
    {%- do return(asked) -%}
{%- endmacro %}

{#- The names of all variables of the command line, but the one that says how a run looks at its rows. -#}
{% macro hudi_variables() -%}
    {%- set given = invocation_args_dict.get('vars') or {} -%}
    {%- do return((fromyaml(given) if given is string else given) | map('string') | reject('equalto', 'compare_whole') | list) -%}
{%- endmacro %}

{#-
    A fingerprint of what a model's text is compiled from: the code and the configuration, as they are written, of it and of the models that
    are no tables behind it, and the macros that these call. Where it is the same, another text comes of a variable, or of the environment.
-#}
{% macro hudi_code() -%}
    {%- set found = {} -%}
    {%- do _walk_codes(model, found) -%}
    {%- do return(local_md5(tojson(found, sort_keys=true))) -%}
{%- endmacro %}

{% macro _walk_codes(node, found) -%}
    {%- set called = {} -%}
    {%- for id in node.depends_on.macros -%}
        {%- do _walk_macros(id, called) -%}
    {%- endfor -%}
    {%- do found.update({node.unique_id: [node.raw_code, node.get('unrendered_config') | string, called]}) -%}
    {%- for id in node.depends_on.nodes
        if id not in found and graph.nodes.get(id, {}).get('config', {}).get('materialized') in ['view', 'ephemeral'] -%}
        {%- do _walk_codes(graph.nodes[id], found) -%}
    {%- endfor -%}
{%- endmacro %}

{#- The texts of a model, and of the models that are no tables behind it, each with the macros that it calls. -#}
{% macro _raw_codes(node) -%}
    {%- set codes = _own_codes(node) -%}
    {%- for id in node.depends_on.nodes -%}
        {%- if graph.nodes.get(id, {}).get('config', {}).get('materialized') in ['view', 'ephemeral'] -%}
            {%- do codes.extend(_raw_codes(graph.nodes[id])) -%}
        {%- elif id in graph.sources -%}
            {%- do codes.append(graph.sources[id].get('unrendered_schema') or '') -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do return(codes) -%}
{%- endmacro %}

{#-
    The text of a model, and those of the macros that it calls, and that they call, or of the ones of its own package alone. What a hook
    alone calls is no part of its select.
-#}
{% macro _own_codes(node, of_packages=true) -%}
    {%- set called, codes = {}, [node.raw_code] -%}
    {%- for id in node.depends_on.macros if _says(node.raw_code, '\\b' ~ id.split('.')[-1] ~ '\\b') -%}
        {%- do _walk_macros(id, called) -%}
    {%- endfor -%}
    {%- for id, code in called.items() if of_packages or id.split('.')[1] == node.package_name -%}
        {%- do codes.append(code) -%}
    {%- endfor -%}
    {%- do return(codes) -%}
{%- endmacro %}

{#- dbt's own macros read what they are given. -#}
{% macro _walk_macros(id, called) -%}
    {%- set package, name = id.split('.')[1:] -%}
    {%- set found = context.get(package, {}).get(name) if package != 'dbt' -%}
    {%- if found and id not in called -%}
        {%- do called.update({id: found.macro.macro_sql}) -%}
        {%- for each in found.macro.depends_on.macros -%}
            {%- do _walk_macros(each, called) -%}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro %}

{#-
    Why these make a model's select a part (`hudi_part`), as with `where id >= {{ var('since') }}`; none where they do not. Its text is not
    the one of its last run, and asks for such as are given now, or were then: no row is to be removed for them. Nobody can ask how a
    source got its name, or a model, or by which name a macro asks for a variable: where the tables that are read are others, or the text is
    and the code (`hudi_code`) is not, each variable may have done it (`variables`).
-#}
{% macro hudi_part_of_variables(recorded, upstreams) -%}
    {%- if recorded is none or recorded.text != upstreams.text -%}
        {%- set reads_others = recorded is not none and recorded.tables.keys() | sort != upstreams.tables.keys() | sort -%}
        {#- A state of an earlier version of the project has no code -#}
        {%- set is_same_code = recorded is not none and recorded.get('code') == upstreams.get('code') -%}
        {%- for run, when in [(upstreams, ''), (recorded or {}, ', which its last run had')] -%}
            {%- if run.get('given') -%}
                {%- do return('its text asks for --vars ' ~ run.given | join(', ') ~ when) -%}
            {%- elif (reads_others or is_same_code) and run.get('variables') -%}
                {%- set found = 'it reads other tables than in its last run' if reads_others else 'its SQL is another one, and its code is not' -%}
                {%- do return(found ~ ', as --vars ' ~ run.variables | join(', ') ~ when ~ ', may have it') -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
    {%- do return(none) -%}
{%- endmacro %}

{#- The refusal, where a key would go: a row that moves to another partition is there too. -#}
{% macro hudi_refuse_variables(difference, key, part) -%}
    {%- set gone -%}
        select count(*) as row_count
        from (select 1 from {{ difference }} group by {{ hudi_quoted(key) }} having every(_lake_is_to_be_removed))
    {%- endset -%}
    {%- set row_count = run_query(gone)[0]['row_count'] -%}
    {%- if row_count -%}
        {%- do hudi_drop(difference) -%}
        {{ exceptions.raise_compiler_error(
            model.unique_id ~ ': got ' ~ row_count ~ ' rows that its select gives no more, expected all rows of the table: ' ~ part
            ~ '; run it, and the views that it reads, with the --vars of its last run, or with --full-refresh, '
            ~ 'or ask is_incremental() in its text, which keeps the others; nothing was written'
        ) }}
    {%- endif -%}
{%- endmacro %}
