-- Fails if the merge-on-read and the copy-on-write table of MoMA's artworks differ in a row, a tombstone or a place.
-- On Spark alone, which reads log files too, and has to_json and the like.
{{ config(enabled=target.type == 'spark') }}

with held as (
    {%- for table_type in ['mor', 'cow'] %}
        select
            artwork_id,
            '{{ table_type }}' as table_type,
            -- As a text: one comparison of all columns.
            to_json(
                struct(
                    artwork_id,
                    title,
                    artist_id,
                    name,
                    date,
                    medium,
                    dimensions,
                    acquisition_date,
                    credit,
                    catalogue,
                    department,
                    classification,
                    object_number,
                    diameter_cm,
                    circumference_cm,
                    height_cm,
                    length_cm,
                    width_cm,
                    depth_cm,
                    weight_kg,
                    durations,
                    __op,
                    __deleted,
                    substring_index(__position, '/', 1) as log_position
                )
            ) as row_text
        from {{ source('moma', 'artworks_' ~ table_type) }}
        {{ 'union all' if not loop.last }}
    {%- endfor %}
)

select artwork_id
from held
group by artwork_id
having
    count_if(table_type = 'mor') <> 1
    or count_if(table_type = 'cow') <> 1
    or count(distinct row_text) <> 1
