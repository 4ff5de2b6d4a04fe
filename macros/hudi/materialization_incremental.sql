{#-
    In place of dbt-spark's for Hudi tables. With the strategy merge, a run leaves the table exactly as its full refresh
    would (see `hudi_increment`), unless the select may be a part of it (`hudi_part`). The other strategies do what they do
    everywhere in dbt.
-#}
{% materialization incremental, adapter='spark', supported_languages=['sql'] %}
    {%- if config.get('file_format') != 'hudi' -%}
        {%- set existing = hudi_present(this) -%}
        {%- if hudi_stays(this, existing) -%}
            {%- do return({'relations': [this]}) -%}
        {%- elif existing is not none and existing.is_hudi and not should_full_refresh() -%}
            {{ exceptions.raise_compiler_error(
                model.unique_id ~ ": got file_format = '" ~ config.get('file_format') ~ "', expected 'hudi', with which its table was made: "
                ~ "rows would be added beside those of their keys; dbt run --full-refresh makes it anew; nothing was written"
            ) }}
        {%- elif files_are_built_beside(existing) and (existing is none or existing.is_view or should_full_refresh()) -%}
            {%- do dbt_spark_validate_get_file_format(config.get('file_format', 'parquet')) -%}
            {%- do return(build_beside(existing, compiled_code)) -%}
        {%- endif -%}
        {%- do return(dbt.materialization_incremental_spark()) -%}
    {%- endif -%}
    {%- set strategy = hudi_strategy() -%}
    {%- set on_schema_change = incremental_validate_on_schema_change(config.get('on_schema_change'), default='ignore') -%}
    {#- dbt remembers it: the next batch of a microbatch would take it for a table of another format -#}
    {%- set target_relation = this.incorporate(type='table', is_hudi=true) -%}

    {%- set existing = hudi_present(this) -%}
    {%- set is_rebuilt = existing is none or not existing.is_hudi or should_full_refresh() -%}
    {%- set part = hudi_part(compiled_code, strategy) -%}
    {%- set described = none if is_rebuilt else hudi_require_settings(existing) -%}
    {%- if hudi_stays(target_relation, existing) -%}
        {%- do hudi_drop_wanted(target_relation, hudi_source_view(target_relation, compiled_code), compiled_code) -%}
        {%- do return({'relations': [target_relation]}) -%}
    {%- endif -%}
    {#- What the upstreams are is asked before anything of them is read, or changed by a hook: what comes meanwhile comes again -#}
    {%- set before = {'instant': none, 'recorded': none} if is_rebuilt or part is not none else hudi_state(existing) -%}
    {%- do hudi_require_past(existing, hudi_instants(existing)[0] if part is not none and not is_rebuilt else before.instant) -%}
    {%- set built_from = upstreams(before.recorded) if part is none else none -%}

    {{ run_hooks(pre_hooks) }}

    {%- set wanted = hudi_source_view(target_relation, compiled_code) -%}
    {%- if part is none -%}
        {%- set built_from = upstreams_of_plan(built_from, compiled_code, before.recorded) -%}
        {%- do built_from.update(
            given=hudi_given_variables() + built_from.given, variables=hudi_variables() + built_from.variables, code=hudi_code()
        ) -%}
        {#- By a view, which dbt's graph does not show -#}
        {%- set part = 'it reads itself' if hudi_name(this) | lower in built_from.tables else none -%}
    {%- endif -%}
    {%- if is_rebuilt -%}
        {%- if existing is not none and not existing.is_view and not should_full_refresh() -%}
            {%- set part = hudi_part_of_variables(none, built_from) if part is none else part -%}
            {%- do hudi_require_whole(target_relation, part, 'a table of another format') -%}
        {%- endif -%}
        {%- do hudi_rebuild(target_relation, existing, wanted, built_from) -%}
    {%- else -%}
        {%- do hudi_increment(existing, described, strategy, on_schema_change, wanted, before, built_from, part) -%}
    {%- endif -%}
    {%- do hudi_drop_wanted(target_relation, wanted, compiled_code) -%}
    {%- do apply_grants(target_relation, config.get('grants'), should_revoke(existing, should_full_refresh())) -%}

    {{ run_hooks(post_hooks) }}

    {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
