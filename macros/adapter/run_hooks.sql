{#-
    In place of dbt's for Spark, which has no transactions: dbt begins the hooks outside of one (`before_begin`, `after_commit`) with
    `commit`, which Spark does not know, and dbt-spark's tables leave them out. Here all of them are run, in their order.
-#}
{% macro run_hooks(hooks, inside_transaction=true) -%}
    {%- if adapter.type() != 'spark' -%}
        {{- dbt.run_hooks(hooks, inside_transaction) -}}
    {%- elif inside_transaction -%}
        {%- set run = [] -%}
        {%- for hook in hooks -%}
            {%- do run.append(dict(hook, transaction=true)) -%}
        {%- endfor -%}
        {{- dbt.run_hooks(run) -}}
    {%- endif -%}
{%- endmacro %}
