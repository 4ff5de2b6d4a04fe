with source as (
    {{ live_rows(source('tickit', 'category')) }}
),

renamed as (
    select
        -- ids
        cast(catid as int) as category_id,

        -- text
        catgroup as category_group,
        catname as category_name,
        catdesc as category_description
    from source
)

select * from renamed
