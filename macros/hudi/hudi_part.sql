{#-
    Why a model's select may be a part of the rows that its table is to hold; none where it is all of them. Rows that such a
    select does not give are there nevertheless: nothing is removed for them, and no commit can say what the table was built from.
-#}
{% macro hudi_part(sql, strategy) -%}
    {%- set code, own_code = _own_codes(model) | join('\n'), _own_codes(model, of_packages=false) | join('\n') -%}
    {%- if strategy != 'merge' -%}
        {%- do return('incremental_strategy = ' ~ strategy ~ ' adds to it') -%}
    {%- elif graph.nodes[model.unique_id].get('asks_is_incremental')
        or _says(code, '(?<![\\w.])dbt\\s*\\.\\s*is_incremental\\b') -%}
        {%- do return('it asks is_incremental()') -%}
    {%- elif _reads_itself(sql, code) -%}
        {%- do return('it reads itself') -%}
    {%- elif _says(own_code, '\\b(?:load_relation|get_relation)\\b(?!\\s*\\(\\s*(?:ref|source)\\s*\\()') -%}
        {%- do return('it asks for a table, which may be its own') -%}
    {%- elif _says(
        code, '\\b(?:run_query|statement|get_columns_in_\\w+)\\b|(?<![\\w.])adapter\\s*\\.(?!\\s*(?:quote|dispatch|type)\\b)'
    ) and _says_its_name(own_code) -%}
        {%- do return('it runs a query, which may be on its own table') -%}
    {%- elif _says(
        _raw_codes(model) | join('\n'),
        '(?i)\\b(?:should_|(?:flags|invocation_args_dict)\\s*(?:\\.|\\[|\\.\\s*get\\s*\\()\\s*[\'"]?)full_refresh\\b', with_texts=true
    ) -%}
        {%- do return('it asks for --full-refresh') -%}
    {%- endif -%}
    {%- do return(none) -%}
{%- endmacro %}

{#-
    Whether a select reads its own table, or may ask whether it is there, by `this` or by the names of `model` in the code of Jinja, its own
    or that of its macros. A name alone (`this.name`, `this.schema`) is what a select says of itself, and in `config(...)` it is for others.
-#}
{% macro _reads_itself(sql, raw_codes) -%}
    {%- set quote = '["`]?' -%}
    {%- set name = '(?<![\\w."`])' ~ quote ~ '(?:(?:spark_catalog|awsdatacatalog)' ~ quote ~ '\\.' ~ quote ~ ')?'
        ~ modules.re.escape(this.schema | lower) ~ quote ~ '\\.' ~ quote ~ modules.re.escape(this.identifier | lower) ~ quote ~ '(?!\\w)' -%}
    {%- if modules.re.search(name, sql | lower) or _says(raw_codes | lower, name, with_texts=true) -%}
        {%- do return(true) -%}
    {%- endif -%}
    {#- Declared as a source, which dbt takes for no circle; it does not see one that is named behind `if execute` -#}
    {%- for source in graph.sources.values() if (source.schema ~ '.' ~ source.identifier) | lower == (this.schema ~ '.' ~ this.identifier) | lower -%}
        {%- set named = '[\'"],\\s*[\'"]'.join([modules.re.escape(source.source_name), modules.re.escape(source.name)]) -%}
        {%- if source.unique_id in model.depends_on.nodes or _says(raw_codes, '\\bsource\\s*\\(\\s*[\'"]' ~ named, with_texts=true) -%}
            {%- do return(true) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if _says(raw_codes, '\\b(?:load_relation|get_relation)\\b') and _says(raw_codes, '(?<![\\w.])model\\s*(?:\\[|\\.\\s*(?:name|alias)\\b)') -%}
        {%- do return(true) -%}
    {%- endif -%}
    {%- do return(_says(raw_codes, '(?<![\\w.])this(?!\\w|\\s*\\.\\s*(?:name|identifier|table|schema|database)\\b)')) -%}
{%- endmacro %}

{#- Whether code has the model's name: by `this` or `model`, or in a text, other than one that `ref` or `source` is given. -#}
{% macro _says_its_name(code) -%}
    {%- set others = modules.re.sub('(?s)\\b(?:ref|source)\\s*\\([^()]*\\)', '', code | lower) -%}
    {%- do return(
        _says(code, '(?<![\\w.])(?:model\\s*(?:\\[|\\.\\s*(?:name|alias)\\b)|this\\s*\\.\\s*(?:name|identifier|table)\\b)')
        or _says(others, '(?<!\\w)' ~ modules.re.escape(this.identifier | lower) ~ '(?!\\w)', with_texts=true)
    ) -%}
{%- endmacro %}

{#- Whether the code of Jinja has a word, outside of `config(...)` and, but `with_texts`, of its texts. -#}
{% macro _says(raw_code, word, with_texts=false) -%}
    {%- set text = "'(?:\\\\.|[^'\\\\])*'|" ~ '"(?:\\\\.|[^"\\\\])*"' -%}
    {#- A mapping has braces of its own, one within another, and may end as the block does: `meta={'by': {'id': 'id'}}` -#}
    {%- set inner = {'code': "[^'" ~ '"{}]'} -%}
    {%- for depth in range(9) -%}
        {%- do inner.update({'code': '(?:' ~ text ~ "|\\{" ~ inner.code ~ "*\\}|[^'" ~ '"{}])'}) -%}
    {%- endfor -%}
    {%- set block = '(?s)\\{[{%](?:(?!%\\})' ~ inner.code ~ ')*[%}]\\}' -%}
    {%- for code in modules.re.findall(block, modules.re.sub('(?s)\\{#.*?#\\}', '', raw_code)) -%}
        {%- set code = code if with_texts else modules.re.sub(text, '', code) -%}
        {%- if not modules.re.match('\\{\\{-?\\s*config\\s*\\(', code) and modules.re.search(word, code) -%}
            {%- do return(true) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do return(false) -%}
{%- endmacro %}

{#- A part of the rows makes no table: the others would be gone. -#}
{% macro hudi_require_whole(target, part, found) -%}
    {%- if part is not none -%}
        {{ exceptions.raise_compiler_error(
            target ~ ': got ' ~ found ~ ', expected the table as it is: ' ~ part
            ~ ', and the rows that it does not select would be gone. dbt run --full-refresh builds it anew; nothing was written'
        ) }}
    {%- endif -%}
{%- endmacro %}

{#-
    Whether a table or view that is there stays as it is, since the command reads no rows of the upstreams, or some (`--empty`,
    `--sample`). Its select is looked at all the same; its hooks do not run, which may write to it. `--full-refresh` says that it may be
    replaced (`is_replaced`), which `full_refresh: true` of the configuration alone does not.
-#}
{% macro hudi_stays(target, existing, is_replaced=flags.FULL_REFRESH and should_full_refresh()) -%}
    {%- set said = hudi_reads_a_part() -%}
    {%- if said is none or existing is none or is_replaced -%}
        {%- do return(false) -%}
    {%- endif -%}
    {%- do look_at(model.compiled_code) -%}
    {%- do log(target ~ ': it stays as it is: ' ~ said ~ ' reads no more of the upstreams than it has to', info=true) -%}
    {%- call statement('main') -%} select 'it stays as it is' as result {%- endcall -%}
    {%- do return(true) -%}
{%- endmacro %}

{#- The option by which a command reads no rows of the upstreams, or some; none where it reads all. -#}
{% macro hudi_reads_a_part() -%}
    {%- do return('--empty' if flags.EMPTY else ('--sample' if invocation_args_dict.get('sample') else none)) -%}
{%- endmacro %}
