-- Fails if a band does not begin where the one below it ends, the lowest does not begin at 0, or the highest ends.
with price_bands as (
    select * from {{ ref('price_bands') }}
),

neighbours as (
    select
        price_band,
        from_price,
        below_price,
        lag(below_price) over (order by from_price asc, price_band asc) as previous_below_price,
        lead(from_price) over (order by from_price asc, price_band asc) as next_from_price
    from price_bands
)

select *
from neighbours
where
    from_price <> coalesce(previous_below_price, 0)
    or (next_from_price is null) <> (below_price is null)
