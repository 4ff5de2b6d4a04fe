{#-
    In place of dbt's for Spark, which has no transactions: dbt begins the hooks outside of one (`before_begin`, `after_commit`) with
    `commit`, which Spark does not know, and dbt-spark's tables leave them out. Here all of them are run, in their order, each as
    it was rendered once: what it says is left for `upstreams_of_plan`.
-#}
{% macro run_hooks(hooks, inside_transaction=true) -%}
    {%- if adapter.type() != 'spark' -%}
        {{- dbt.run_hooks(hooks, inside_transaction) -}}
    {%- elif inside_transaction -%}
        {%- set run = [] -%}
        {%- for hook in hooks -%}
            {%- set sql = render(hook.get('sql')) | trim -%}
            {%- if sql -%}
                {%- do run.append(sql) -%}
                {%- call statement(auto_begin=true) -%}
                    {{ sql }}
                {%- endcall -%}
            {%- endif -%}
        {%- endfor -%}
        {%- if model.unique_id in graph.nodes -%}
            {%- do graph.nodes[model.unique_id].update(hooks_that_ran=run) -%}
        {%- endif -%}
    {%- endif -%}
{%- endmacro %}
