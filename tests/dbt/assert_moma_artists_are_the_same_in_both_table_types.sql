-- Fails if the merge-on-read and the copy-on-write table of MoMA's artists differ in a row, a tombstone or a place.
with merge_on_read as (
    select
        artist_id,
        name,
        nationality,
        gender,
        birth_year,
        death_year,
        __op,
        __deleted,
        substring_index(__position, '/', 1) as log_position
    from {{ source('moma', 'artists_mor') }}
),

copy_on_write as (
    select
        artist_id,
        name,
        nationality,
        gender,
        birth_year,
        death_year,
        __op,
        __deleted,
        substring_index(__position, '/', 1) as log_position
    from {{ source('moma', 'artists_cow') }}
),

-- A row as a text: one comparison of all columns.
held_by_merge_on_read as (
    select
        artist_id,
        to_json(struct(*)) as held
    from merge_on_read
),

held_by_copy_on_write as (
    select
        artist_id,
        to_json(struct(*)) as held
    from copy_on_write
)

select coalesce(held_by_merge_on_read.artist_id, held_by_copy_on_write.artist_id) as artist_id
from held_by_merge_on_read
full outer join held_by_copy_on_write
    on held_by_merge_on_read.artist_id = held_by_copy_on_write.artist_id
where not (held_by_merge_on_read.held <=> held_by_copy_on_write.held)
