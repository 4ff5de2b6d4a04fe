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
)

select coalesce(merge_on_read.artist_id, copy_on_write.artist_id) as artist_id
from merge_on_read
full outer join copy_on_write
    on merge_on_read.artist_id = copy_on_write.artist_id
where not (to_json(struct(merge_on_read.*)) <=> to_json(struct(copy_on_write.*)))
