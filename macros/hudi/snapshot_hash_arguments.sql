{#-
    In place of dbt-spark's, which joins values by a bar: the keys `a|b`, `c` and `a`, `b|c` would be one version. Values without
    bars and backslashes are hashed as that one does.
-#}
{% macro spark__snapshot_hash_arguments(args) -%}
    md5(
    {%- for arg in args -%}
        replace(replace(coalesce(cast({{ arg }} as string), ''), '\\', '\\\\'), '|', '\\|'){{ " || '|' || " if not loop.last }}
    {%- endfor -%}
    )
{%- endmacro %}
