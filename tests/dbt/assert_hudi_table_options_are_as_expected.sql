-- Fails if the options that a Hudi table gets from its key and its settings are not the expected ones.
{%- set cases = [
    (hudi_table_options(none, 'sale_id', 'a'), {'primaryKey': 'sale_id'}),
    (hudi_table_options({'type': 'mor'}, ['actor_id', 'film_id'], 'b'), {'type': 'mor', 'primaryKey': 'actor_id,film_id'}),
    (hudi_table_options({'primaryKey': 'actor_id, film_id'}, ['actor_id', 'film_id'], 'c'), {'primaryKey': 'actor_id,film_id'}),
    (hudi_table_options({'primaryKey': ['a', 'b']}, 'a, b', 'd'), {'primaryKey': 'a,b'}),
] %}
{%- set wrong_cases = [] %}
{%- for got, expected in cases if got != expected %}
    {%- do wrong_cases.append('case ' ~ loop.index ~ ' gives ' ~ got) %}
{%- endfor %}

select cast("{{ wrong_cases | join('; ') }}" as string) as wrong_cases
where {{ wrong_cases | length }} > 0
