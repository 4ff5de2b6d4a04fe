-- Fails if the merge-on-read and the copy-on-write table of MoMA's artists differ in a row, a tombstone or a log position.
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

(select * from merge_on_read except select * from copy_on_write)
union all
(select * from copy_on_write except select * from merge_on_read)
