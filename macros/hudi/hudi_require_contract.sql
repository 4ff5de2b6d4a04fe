{#-
    In place of dbt's `get_assert_columns_equivalent`, which has the model's select analysed once more: its columns are
    known. Types are compared whole, where dbt-spark over Thrift sees a decimal without its digits.
-#}
{% macro hudi_require_contract(columns) -%}
    {%- set from_model, from_contract = [], [] -%}
    {%- for column in columns -%}
        {%- do from_model.append({'name': column.name, 'data_type': column.dtype}) -%}
    {%- endfor -%}
    {%- if model['columns'] -%}
        {%- for column in run_query('describe query ' ~ get_empty_schema_sql(model['columns'])) -%}
            {%- do from_contract.append({'name': column[0], 'data_type': column[1]}) -%}
        {%- endfor -%}
    {%- endif -%}
    {%- if from_model | sort(attribute='name') != from_contract | sort(attribute='name') -%}
        {%- do exceptions.raise_contract_error(from_contract, from_model) -%}
    {%- endif -%}
{%- endmacro %}
