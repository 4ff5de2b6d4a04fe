{#-
    In place of dbt-spark's, from whose rows dbt's documentation takes the columns of each table: Hudi's own five are left out, as
    dbt-spark leaves them out wherever it asks for the columns of one table. And descriptions: dbt-spark looks for `Type: VIEW`, and for
    what provides a table, anywhere in what the catalog says of it.
-#}
{% macro spark__list_relations_without_caching(relation) -%}
    {%- call statement('list_relations_without_caching', fetch_result=True) -%}
        show table extended in {{ relation.schema }} like '*'
    {%- endcall -%}
    {%- set own = '(?ms)^ [|]-- (?:' ~ hudi_own_columns() | join('|') ~ '): .*?\n' -%}
    {%- set described = '^Comment: .*?(?=^(?:View Text|Table Properties|Statistics|Location|Partition Provider|Schema): )|^Table Properties: .*?\n' -%}
    {%- set relations = [] -%}
    {%- for row in load_result('list_relations_without_caching').table -%}
        {%- do relations.append((row[0], row[1], row[2], modules.re.sub(own ~ '|' ~ described, '', row[3]))) -%}
    {%- endfor -%}
    {%- do return(relations) -%}
{%- endmacro %}
