{#-
    When a row breaks a constraint of the model's contract, and what is said then. Hudi knows no constraints: `not_null` and
    `check` are carried out as the rows are read that a run writes, without another pass. Others need a look at other rows.
-#}
{% macro hudi_broken_constraints() -%}
    {%- set broken = [] -%}
    {%- if not config.get('contract').enforced -%}
        {%- do return(broken) -%}
    {%- endif -%}
    {%- set constraints = [] -%}
    {%- for constraint in model.constraints -%}
        {%- do constraints.append((constraint, constraint.columns)) -%}
    {%- endfor -%}
    {%- for name, column in model.columns.items() -%}
        {%- for constraint in column.constraints -%}
            {%- do constraints.append((constraint, [name])) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- for constraint, names in constraints -%}
        {%- if constraint.type == 'not_null' -%}
            {%- for name in names -%}
                {%- do broken.append((
                    adapter.quote(name) ~ ' is null', model.unique_id ~ ": got null in " ~ name ~ ", expected a value (not_null)"
                )) -%}
            {%- endfor -%}
        {%- elif constraint.type == 'check' -%}
            {%- do broken.append((
                'not (' ~ constraint.expression ~ ')',
                model.unique_id ~ ": got a row that breaks " ~ (constraint.name or 'check') ~ ", expected " ~ constraint.expression
            )) -%}
        {%- elif constraint.warn_unenforced -%}
            {%- do exceptions.warn(
                model.unique_id ~ ": got constraint " ~ constraint.type ~ ", expected one of not_null, check: no other is enforced"
                ~ " (a test is; warn_unenforced: false says that this is known)"
            ) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do return(broken) -%}
{%- endmacro %}
