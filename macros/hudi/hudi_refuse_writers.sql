{#- Where other runs have written to a table during each try of this one. -#}
{% macro hudi_refuse_writers(target) -%}
    {{ exceptions.raise_compiler_error(
        model.unique_id ~ ': got another commit to ' ~ target ~ ' in each of three tries, expected one writer at a time; '
        ~ 'run it again when the other runs have ended'
    ) }}
{%- endmacro %}
