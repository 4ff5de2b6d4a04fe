"""PostgreSQL, as `lake reconcile` reads it."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ingest.config.tables import Column
from ingest.operations.databases.forms import (
    DATE,
    Dialect,
    Form,
    FormOf,
    Reader,
    SourceColumn,
    Step,
    as_one_instant,
    as_one_interval,
    as_one_json,
    as_one_time,
    bit_string_form,
    floating_form,
    scalar_type,
    time_form,
    timestamp_form,
)


class PostgreSql(Dialect):
    driver = "org.postgresql.Driver"
    session = "set time zone 'UTC'"

    def columns(self, reader: Reader, table: tuple[str, ...]) -> list[SourceColumn]:
        relation = ".".join(map(self.quote, table)).replace("'", "''")
        # A domain has the type that it is made of.
        rows = reader.ask(f"""
            with recursive typed as (
                select attname, atttypid as type_id, atttypmod as modifier
                from pg_catalog.pg_attribute
                where attrelid = to_regclass('{relation}') and attnum > 0 and not attisdropped
                union all
                select typed.attname, domain.typbasetype, domain.typtypmod
                from typed
                inner join pg_catalog.pg_type as domain on domain.oid = typed.type_id and domain.typtype = 'd'
            )
            select
                typed.attname::text as name,
                coalesce(element.typname, pg_type.typname)::text as kind,
                typed.modifier,
                element.oid is not null as is_array
            from typed
            inner join pg_catalog.pg_type on pg_type.oid = typed.type_id and pg_type.typtype <> 'd'
            left join pg_catalog.pg_type as element
                on element.oid = pg_type.typelem and pg_type.typcategory = 'A'
        """)
        return [
            SourceColumn(row["name"], row["kind"], row["modifier"] if row["modifier"] >= 0 else None, row["is_array"])
            for row in rows
        ]

    def form(self, column: SourceColumn, declared: Column) -> Form | None:
        value = self.quote(column.name)
        if not column.is_array:
            return _scalar(value, column, declared)
        wanted = declared.data_type
        element = _scalar("item", column, declared)
        if element is None or column.kind in ("bit", "varbit"):
            return None
        text = element.element or f"({element.query})::text"
        items = f"select json_agg({text} order by place) from unnest({value}) with ordinality as items(item, place)"
        query = f"case when {value} is not null then coalesce(({items}), '[]')::text end"
        as_texts = T.ArrayType(T.StringType())
        normal: Step | None = None
        if isinstance(wanted, T.StringType):
            # A text of JSON, whose numbers may stand there as numbers or as texts.
            normal = as_one_json
        elif isinstance(wanted, T.ArrayType) and isinstance(wanted.elementType, T.ArrayType):
            return None
        elif element.normal is not None:
            of_item = element.normal

            def normal(items: Expression) -> Expression:
                return F.transform(items, of_item)

        return Form(query, as_texts, element.semantic_type, lambda text: F.from_json(text, as_texts), normal)

    def bounds(self, relation: str, first: str, reads: int, *, whole: bool) -> str | None:
        parts = ", ".join(
            f"(percentile_disc({number / reads}) within group (order by {first}))::text as b{number}"
            for number in range(1, reads)
        )
        return f"select {parts} from {relation}"


def _scalar(value: str, column: SourceColumn, declared: Column) -> Form | None:
    return _FORMS.get(column.kind, _text)(value, column, declared)


def _none(value: str, column: SourceColumn, declared: Column) -> None:
    """A structure in an event, or of a form that depends on a setting of the connector."""


def _whole(value: str, column: SourceColumn, declared: Column) -> Form:
    return Form(f"{value}::bigint", T.LongType())


def _boolean(value: str, column: SourceColumn, declared: Column) -> Form:
    return Form(value, T.BooleanType())


def _floating(value: str, column: SourceColumn, declared: Column) -> Form:
    is_single = column.kind == "float4"
    return floating_form(f"{value}::float8", scalar_type(declared), single=is_single, element=f"{value}::text")


def _numeric(value: str, column: SourceColumn, declared: Column) -> Form:
    return Form(f"{value}::numeric::text", T.StringType())


def _bytes(value: str, column: SourceColumn, declared: Column) -> Form:
    way = "hex" if declared.binary == "hex" else "base64"
    return Form(value, T.BinaryType(), element=f"translate(encode({value}, '{way}'), chr(10), '')")


def _bits(value: str, column: SourceColumn, declared: Column) -> Form | None:
    return bit_string_form(f"lpad({value}::text, 64, '0')::bit(64)::bigint", column.size)


def _date(value: str, column: SourceColumn, declared: Column) -> Form:
    # Debezium's infinity lies beyond every date of PostgreSQL.
    days = _finite(value, f"{value} - date '1970-01-01'", "2147483647", "-2147483648")
    return Form(days, T.LongType(), DATE)


def _timestamp(value: str, column: SourceColumn, declared: Column) -> Form:
    # The bounds are PGStatement.DATE_POSITIVE_INFINITY and DATE_NEGATIVE_INFINITY of the JDBC driver.
    micros = f"round(extract(epoch from {value}) * 1000000)::bigint"
    micros = _finite(value, micros, "9223372036825200000", "-9223372036832400000")
    if column.kind == "timestamptz" and isinstance(scalar_type(declared), T.StringType):
        written = f"to_char({value} at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
        query = f"case when isfinite({value}) then {written} else {value}::text end"
        return Form(query, T.StringType(), normal=as_one_instant)
    in_millis = column.kind == "timestamp" and column.size is not None and column.size <= 3
    return timestamp_form(micros, "/", declared, in_millis=in_millis)


def _time(value: str, column: SourceColumn, declared: Column) -> Form:
    micros = f"round(extract(epoch from {value}) * 1000000)::bigint"
    return time_form(micros, "/", declared, in_millis=column.size is not None and column.size <= 3)


def _time_with_zone(value: str, column: SourceColumn, declared: Column) -> Form:
    return Form(f"({value} at time zone 'UTC')::time::text", T.StringType(), normal=as_one_time)


def _interval(value: str, column: SourceColumn, declared: Column) -> Form:
    """`interval.handling.mode`: numeric, where a month has 365.25 / 12 days; or string, declared as such."""
    part = {name: f"extract({name} from {value})" for name in ("year", "month", "day", "hour", "minute", "second")}
    if isinstance(scalar_type(declared), T.StringType):
        units = zip(("P", "Y", "M", "DT", "H", "M"), part.values(), strict=True)
        text = " || ".join(f"'{unit}' || ({number})::numeric::text" for unit, number in units)
        return Form(f"{text} || 'S'", T.StringType(), normal=as_one_interval)
    whole = (f"({part['year']} * 12 + {part['month']}) * 2629800 + {part['day']} * 86400 + {part['hour']} * 3600"
             f" + {part['minute']} * 60 + {part['second']}")  # fmt: skip
    return Form(f"round(({whole}) * 1000000)::bigint", T.LongType())


def _text(value: str, column: SourceColumn, declared: Column) -> Form:
    # Unlike a cast, format keeps the blanks that fill a char(n), and leaves a host's address without its mask.
    return Form(f"case when {value} is not null then format('%s', {value}) end", T.StringType())


def _finite(value: str, number: str, infinity: str, before: str) -> str:
    """The number of a date or timestamp, and Debezium's numbers for infinity and what is infinitely before."""
    cases = f"when {value} > 'epoch' then {infinity} when {value} < 'epoch' then {before}"
    return f"(case when isfinite({value}) then {number} {cases} end)::bigint"


# How the values of a type are fetched; those of any other as their text.
_FORMS: Mapping[str, FormOf] = {
    **dict.fromkeys(("point", "line", "lseg", "box", "path", "polygon", "circle", "geometry", "geography"), _none),
    **dict.fromkeys(("hstore", "vector", "halfvec", "sparsevec"), _none),
    **dict.fromkeys(("int2", "int4", "int8", "oid"), _whole),
    "bool": _boolean,
    **dict.fromkeys(("float4", "float8"), _floating),
    **dict.fromkeys(("numeric", "money"), _numeric),
    "bytea": _bytes,
    **dict.fromkeys(("bit", "varbit"), _bits),
    "date": _date,
    **dict.fromkeys(("timestamp", "timestamptz"), _timestamp),
    "time": _time,
    "timetz": _time_with_zone,
    "interval": _interval,
}
