-- Fails if the merge-on-read and the copy-on-write table of MoMA's artworks differ in a row, a tombstone or a place.
with merge_on_read as (
    select
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
    from {{ source('moma', 'artworks_mor') }}
),

copy_on_write as (
    select
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
    from {{ source('moma', 'artworks_cow') }}
),

-- A row as a text: one comparison of all columns.
held_by_merge_on_read as (
    select
        artwork_id,
        to_json(struct(*)) as held
    from merge_on_read
),

held_by_copy_on_write as (
    select
        artwork_id,
        to_json(struct(*)) as held
    from copy_on_write
)

select coalesce(held_by_merge_on_read.artwork_id, held_by_copy_on_write.artwork_id) as artwork_id
from held_by_merge_on_read
full outer join held_by_copy_on_write
    on held_by_merge_on_read.artwork_id = held_by_copy_on_write.artwork_id
where not (held_by_merge_on_read.held <=> held_by_copy_on_write.held)
