with source as (
    {{ live_rows(source('pagila', 'film')) }}
),

renamed as (
    select
        -- ids
        film_id,
        language_id,
        original_language_id,

        -- text
        title,
        description,
        coalesce(rating, 'NR') as rating,
        special_features,
        fulltext as search_words,

        -- numerics
        release_year,
        rental_duration as rental_duration_days,
        rental_rate,
        length as length_minutes,
        replacement_cost,

        -- timestamps
        {{ timestamp_of_epoch('__source_ts_ms', 'millisecond') }} as changed_at,
        last_update as last_updated_at
    from source
)

select * from renamed
