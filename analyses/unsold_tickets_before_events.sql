-- How much of what is listed gets sold, by price band and by how long before its event an offer is made.
with listings as (
    select * from {{ ref('fct_listings') }}
),

banded as (
    select
        price_band,
        quantity_listed,
        quantity_sold,
        case
            when days_from_listing_to_event < 7 then 'less than a week'
            when days_from_listing_to_event < 28 then 'one to four weeks'
            when days_from_listing_to_event >= 28 then 'four weeks or more'
        end as time_before_event
    from listings
)

select
    price_band,
    time_before_event,
    sum(quantity_listed) as quantity_listed,
    sum(quantity_sold) as quantity_sold,
    {{ quotient('sum(quantity_sold)', 'sum(quantity_listed)', 'decimal(4, 1)', times=100) }} as sold_prcnt
from banded
group by price_band, time_before_event
order by price_band asc, time_before_event asc
