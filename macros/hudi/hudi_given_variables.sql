{#-
    Variables of the command line (`--vars`) that a model's text asks for, where this text is not the one of its last run: its select
    may be a part of the rows, as with `where id >= {{ var('since') }}`, and no row is to be removed for it.
-#}
{% macro hudi_given_variables(told, upstreams) -%}
    {%- set given, asked = invocation_args_dict.get('vars') or {}, [] -%}
    {%- if told is none or told.text != upstreams.text -%}
        {%- for name in (fromyaml(given) if given is string else given) -%}
            {%- if modules.re.search("\\bvar\\(\\s*['\"]" ~ modules.re.escape(name | string) ~ "['\"]", model.raw_code) -%}
                {%- do asked.append(name) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
    {%- do return(asked) -%}
{%- endmacro %}

{#- The refusal, where a key would go: a row that moves to another partition is there too. -#}
{% macro hudi_refuse_variables(difference, key, variables) -%}
    {%- set gone -%}
        select count(*) as row_count
        from (select 1 from {{ difference }} group by {{ hudi_quoted(key) }} having every(is_to_be_removed))
    {%- endset -%}
    {%- set row_count = run_query(gone)[0]['row_count'] -%}
    {%- if row_count -%}
        {%- do hudi_drop(difference) -%}
        {{ exceptions.raise_compiler_error(
            model.unique_id ~ ': got ' ~ row_count ~ ' rows that its select gives no more with --vars ' ~ variables | join(', ')
            ~ ', expected all rows of the table: run it without, or with --full-refresh, or ask is_incremental() in its text, '
            ~ 'which keeps the others; nothing was written'
        ) }}
    {%- endif -%}
{%- endmacro %}
