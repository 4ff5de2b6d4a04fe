-- Fails if the merge-on-read and the copy-on-write table of MoMA's artists differ in a row, a tombstone or a place.
-- On Spark alone, which reads log files too, and has to_json and the like.
{{ config(enabled=target.type == 'spark') }}

with held as (
    {%- for table_type in ['mor', 'cow'] %}
        select
            artist_id,
            '{{ table_type }}' as table_type,
            -- As a text: one comparison of all columns.
            to_json(
                struct(
                    artist_id,
                    name,
                    nationality,
                    gender,
                    birth_year,
                    death_year,
                    __op,
                    __deleted,
                    substring_index(__position, '/', 1) as log_position
                )
            ) as row_text
        from {{ source('moma', 'artists_' ~ table_type) }}
        {{ 'union all' if not loop.last }}
    {%- endfor %}
)

select artist_id
from held
group by artist_id
having
    count_if(table_type = 'mor') <> 1
    or count_if(table_type = 'cow') <> 1
    or count(distinct row_text) <> 1
