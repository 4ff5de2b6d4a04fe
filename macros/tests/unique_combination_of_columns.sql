{#-
    Fails if a combination of values comes more than once; each such combination, and in how many rows. A null is a value like
    another here. Name and arguments are those of the package dbt_utils.
-#}
{% test unique_combination_of_columns(model, combination_of_columns, quote_columns=false) %}

{%- if combination_of_columns is string or combination_of_columns is not sequence or not combination_of_columns -%}
    {{ exceptions.raise_compiler_error(
        "unique_combination_of_columns: got combination_of_columns = " ~ combination_of_columns
        ~ ", expected a list of columns, at least one"
    ) }}
{%- endif -%}
{%- set names = (hudi_quoted(combination_of_columns) if quote_columns else combination_of_columns | join(', ')) -%}

select
    {{ names }},
    count(*) as row_count
from {{ model }}
group by {{ names }}
having count(*) > 1

{% endtest %}
