{#-
    In place of dbt-spark's for Hudi tables: that one writes a commit of Hudi for each column in each run, which does not say
    from what the model was built, so that the next run would compare the whole table. Here a run writes what differs: most
    comments come with the table (`hudi_source_view`).

    Hudi cannot change the comment of a partition column: it stays as it was when the table was made.
-#}
{% macro spark__persist_docs(relation, model, for_relation=true, for_columns=true) -%}
    {%- if config.get('file_format') != 'hudi' -%}
        {%- do return(dbt.spark__persist_docs(relation, model, for_relation, for_columns)) -%}
    {%- endif -%}
    {%- set of_relation = for_relation and config.persist_relation_docs() -%}
    {%- set of_columns = for_columns and config.persist_column_docs() -%}
    {%- if not of_relation and not of_columns -%}
        {%- do return('') -%}
    {%- endif -%}
    {%- set present, partitions = hudi_described(relation), hudi_partitions() | map('lower') | list -%}
    {%- if of_relation and present.details.get('Comment', '') != model.description -%}
        {%- do run_query('alter table ' ~ relation ~ " set tblproperties ('comment' = " ~ hudi_text(model.description) ~ ')') -%}
    {%- endif -%}
    {%- if of_columns -%}
        {%- do validate_doc_columns(relation, model.columns, present.columns | map(attribute='name') | list) -%}
        {%- set descriptions, changed = hudi_descriptions(), [] -%}
        {%- for column in present.columns if column.name | lower not in partitions -%}
            {%- if descriptions.get(column.name | lower, column.comment) != column.comment -%}
                {%- do changed.append(column.name) -%}
            {%- endif -%}
        {%- endfor -%}
        {%- if changed and not hudi_has_schema_of_its_name(relation) -%}
            {%- do log(
                relation ~ ': the comments of ' ~ changed | join(', ') ~ ' stay as they are until a merge has written to it: '
                ~ 'Hudi changes none of a table that has another name than when it was built', info=true
            ) -%}
            {%- do changed.clear() -%}
        {%- endif -%}
        {%- for name in changed -%}
            {%- do run_query(
                'alter table ' ~ relation ~ ' change column ' ~ adapter.quote(name) ~ ' comment '
                ~ hudi_text(descriptions[name | lower])
            ) -%}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro %}

{#-
    Hudi takes two schemas of different names for incompatible ones; a table that took its name by a rename has the old one,
    until a merge: inserts keep it.
-#}
{% macro hudi_has_schema_of_its_name(relation) -%}
    {%- set schema = hudi_kept_in_commit(relation, 'schema', hudi_commits_of_rows(hudi_commits(relation))) -%}
    {%- do return(schema is not none and fromjson(schema.value).name == relation.identifier ~ '_record') -%}
{%- endmacro %}

{#- In place of dbt-spark's, which leaves a backslash to be read as the beginning of something else. -#}
{% macro spark__comment_clause() -%}
    {%- if config.persist_relation_docs() -%}
    comment {{ hudi_text(model.description) }}
    {%- endif -%}
{%- endmacro %}

{#- The model's descriptions of columns, by their names in lower case: the first 256 letters, for Hive's catalog holds no more. -#}
{% macro hudi_descriptions() -%}
    {%- set descriptions = {} -%}
    {%- for name, column in model.columns.items() -%}
        {%- do descriptions.update({name | lower: column.description if column.description | length <= 256 else column.description[:255] ~ '…'}) -%}
    {%- endfor -%}
    {%- do return(descriptions) -%}
{%- endmacro %}

{#- A text as a literal of SQL. -#}
{% macro hudi_text(text) -%}
    {%- do return("'" ~ text.replace('\\', '\\\\').replace("'", "\\'") ~ "'") -%}
{%- endmacro %}
