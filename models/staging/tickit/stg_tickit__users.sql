with source as (
    {{ live_rows(source('tickit', 'user')) }}
),

renamed as (
    select
        -- ids
        userid as user_id,

        -- text
        username,
        firstname as first_name,
        lastname as last_name,
        case
            when firstname is null then lastname
            when lastname is null then firstname
            else concat(lastname, ', ', firstname)
        end as full_name,
        city,
        state as state_code,
        email,
        phone as phone_number,

        -- numerics
        {{ count_true([
            'likesports', 'liketheatre', 'likeconcerts', 'likejazz', 'likeclassical',
            'likeopera', 'likerock', 'likevegas', 'likebroadway', 'likemusicals',
        ]) }} as interest_count,

        -- booleans
        likebroadway as is_fan_of_broadway,
        likeclassical as is_fan_of_classical,
        likeconcerts as is_fan_of_concerts,
        likejazz as is_fan_of_jazz,
        likemusicals as is_fan_of_musicals,
        likeopera as is_fan_of_opera,
        likerock as is_fan_of_rock,
        likesports as is_fan_of_sports,
        liketheatre as is_fan_of_theatre,
        likevegas as is_fan_of_vegas
    from source
)

select * from renamed
