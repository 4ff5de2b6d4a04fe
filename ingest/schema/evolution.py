"""What a run does about schemas: the declaration against silver and against the fields of the events that wait.

`plan` is a pure function of lists of fields. `lake plan` shows what it finds; the runner lands by the same findings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pyspark.sql import types as T

from ingest.config.checks import is_column_name, is_hashable
from ingest.config.sources_file import RESERVED
from ingest.config.tables import Column, SchemaPolicy, SemanticType, Table
from ingest.schema.connect import DECIMAL, TIMES
from ingest.schema.connectors import connector_of
from ingest.schema.widths import is_column_type, is_convertible, is_wider

Kind = Literal["add", "drop", "widen", "narrow", "incompatible"]
Place = Literal["events", "declaration"]
# What Debezium's semantic types make of a column that nobody declared; any other is kept as the type that carries it.
_MEANINGS: Mapping[str, tuple[T.DataType, SemanticType]] = {
    "io.debezium.time.Date": (T.DateType(), "io.debezium.time.Date"),
    "io.debezium.time.Timestamp": (T.TimestampType(), "io.debezium.time.Timestamp"),
    "io.debezium.time.MicroTimestamp": (T.TimestampType(), "io.debezium.time.MicroTimestamp"),
    "io.debezium.time.NanoTimestamp": (T.TimestampType(), "io.debezium.time.NanoTimestamp"),
    "io.debezium.time.ZonedTimestamp": (T.TimestampType(), "io.debezium.time.ZonedTimestamp"),
    # time.precision.mode=connect, whose values are milliseconds.
    "org.apache.kafka.connect.data.Date": (T.DateType(), "io.debezium.time.Date"),
    "org.apache.kafka.connect.data.Timestamp": (T.TimestampType(), "io.debezium.time.Timestamp"),
}
# Of a connector that has nanoseconds, these may not fit into a timestamp: they stay what carries them.
_MAY_HAVE_NANOSECONDS = ("io.debezium.time.NanoTimestamp", "io.debezium.time.ZonedTimestamp")
_ANEW = "declare another location and epoch to land the table anew"


@dataclass(frozen=True)
class EventField:
    """A field of the row in an event: name, Spark's type, and Debezium's semantic type where a schema names it."""

    name: str
    data_type: T.DataType
    semantic_type: str | None = None


@dataclass(frozen=True)
class Version:
    """The fields of some events that wait.

    `whole` is true where a schema tells all of them. Of JSON texts only those fields are known that nobody declared,
    and the columns that some event `lacks`. With `has_metadata`, fields that are named as metadata are none of the row.
    Those that `default` may be null, and have a default in the schema.
    """

    fields: tuple[EventField, ...]
    whole: bool = True
    lacks: tuple[str, ...] = ()
    has_metadata: bool = True
    default: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Reading:
    """How events of one version are read.

    Attributes
    ----------
    names:
        The field of a column, where its name differs from the column's by case.
    refused:
        Fields that must be null, and why: an event with a value is quarantined.
    required:
        Columns that an event must have: one without is quarantined.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    required: tuple[str, ...] = ()


@dataclass(frozen=True)
class Difference:
    """A difference between two schemas, the policy for it, and what a run does.

    Attributes
    ----------
    found, expected:
        The type where it was found, and the type it should have; empty where there is no such column.
    policy:
        Of `schema_policy`; empty for a difference between declaration and silver, which the declaration decides.
    fails:
        A run lands nothing of the table.
    """

    column: str
    kind: Kind
    place: Place
    found: str
    expected: str
    policy: str
    effect: str
    fails: bool = False

    @property
    def told(self) -> str:
        """What differs, in one sentence."""
        where = "silver" if self.place == "declaration" else "the events"
        if not self.expected:
            return f"not declared, a {self.found} in {where}"
        if not self.found:
            return f"declared {self.expected}, absent from {where}"
        return f"declared {self.expected}, {self.found} in {where}"


@dataclass(frozen=True)
class Plan:
    """What a run does: the columns silver will have, how each version is read, and every difference found."""

    columns: tuple[Column, ...]
    readings: tuple[Reading, ...]
    differences: tuple[Difference, ...]

    @property
    def failures(self) -> tuple[Difference, ...]:
        """The differences that keep a run from landing anything."""
        return tuple(difference for difference in self.differences if difference.fails)


def plan(table: Table, silver: Sequence[Column] | None, versions: Sequence[Version] = ()) -> Plan:
    """Compares the declared columns with those of silver and with the fields of events.

    Parameters
    ----------
    silver:
        The columns that silver has of its source; None before the first commit.
    versions:
        The fields of the events that wait, once for each schema they were written with.
    """
    columns, differences = _with_silver(table, silver)
    readings = []
    for version in versions:
        columns, reading, found = _with_version(table, columns, version)
        readings.append(reading)
        differences += [difference for difference in found if difference not in differences]
    return Plan(tuple(columns.values()), tuple(readings), tuple(differences))


def natural(found: EventField, table: Table) -> Column | None:
    """The column that a field nobody declared becomes; None where silver has no type for it."""
    meaning = (found.semantic_type or "").split(";")[0]
    data_type: T.DataType = found.data_type
    semantic_type: SemanticType | None = None
    if isinstance(data_type, T.ArrayType):
        # What a schema says of an array's meaning is said of its items.
        item = natural(replace(found, data_type=data_type.elementType), table)
        is_text = isinstance(data_type.elementType, T.StructType | T.MapType)
        return None if item is None or is_text else replace(item, data_type=T.ArrayType(item.data_type))
    may_be_finer = meaning in _MAY_HAVE_NANOSECONDS and connector_of(table).has_nanoseconds
    if meaning in _MEANINGS and not may_be_finer:
        data_type, semantic_type = _MEANINGS[meaning]
    elif _has_no_width(found):
        scale = dict(part.split("=") for part in (found.semantic_type or "").split(";")[1:]).get("scale", "0")
        data_type = T.DecimalType(38, max(0, min(int(scale), 38)))
    # Times of day become texts, as a declared string would.
    elif meaning in TIMES or isinstance(data_type, T.StructType | T.MapType):
        data_type = T.StringType()
    elif isinstance(data_type, T.ByteType | T.ShortType):
        data_type = T.IntegerType()
    elif isinstance(data_type, T.TimestampNTZType):
        data_type = T.TimestampType()
    known = is_column_type(data_type)
    return Column(found.name, data_type, semantic_type=semantic_type, declared=False) if known else None


def _has_no_width(found: EventField) -> bool:
    """Whether a field is a decimal of which only the scale is known, or one that Spark has no type for."""
    is_coded = isinstance(found.data_type, T.StringType | T.BinaryType)
    return is_coded and (found.semantic_type or "").startswith(DECIMAL)


def _with_silver(table: Table, silver: Sequence[Column] | None) -> tuple[dict[str, Column], list[Difference]]:
    """The columns silver will have by declaration, and how that differs from what it has."""
    columns = {column.name: column for column in table.columns}
    differences = []
    held = {column.name: column for column in silver or ()}
    by_case = {name.lower(): name for name in columns}
    for name, declared in list(columns.items()):
        if silver is None:
            break
        wanted = declared.data_type.simpleString()
        if name not in held:
            other = next((known for known in held if known.lower() == name.lower()), None)
            if other is not None:
                effect = f"the run fails: silver has it as {other}, and tells columns apart by more than case"
                differences.append(_declared(name, "incompatible", other, wanted, effect, fails=True))
                continue
            effect = "the run fails: a column of the key or the partition cannot be added to rows that lack it"
            fails = name in _placing(table) or declared.substring_of is not None
            message = effect if fails else "silver gets the column; rows that are there have null"
            differences.append(_declared(name, "add", "", wanted, message, fails=fails))
            continue
        if (held[name].hashed_from is None) != (declared.hashed_from is None):
            now, before = ("hashed", "plain") if declared.hashed_from else ("plain", "hashed")
            effect = f"the run fails: silver's values are {before}, and would stand beside {now} ones; {_ANEW}"
            differences.append(_declared(name, "incompatible", before, now, effect, fails=True))
            continue
        have = held[name].data_type
        if have == declared.data_type:
            continue
        shown = have.simpleString()
        if is_wider(declared.data_type, have):
            fails = _is_fixed(table, name, declared.data_type, have)
            effect = f"the run fails: rows are found by the texts of its values, which have others then; {_ANEW}"
            message = effect if fails else "silver's column is widened"
            differences.append(_declared(name, "widen", shown, wanted, message, fails=fails))
        elif is_wider(have, declared.data_type):
            differences.append(_declared(name, "narrow", shown, wanted, "silver keeps its wider type"))
            columns[name] = replace(declared, data_type=have)
        else:
            effect = (
                "the run fails: Hudi cannot rewrite the column; declare its type, or another location and epoch to "
                "land the table anew"
            )
            differences.append(_declared(name, "incompatible", shown, wanted, effect, fails=True))
    excluded = {name.lower() for name in table.excluded}
    for name, column in held.items():
        if name.lower() in excluded or (column.hashed_from is not None and name.lower() not in by_case):
            stays = "excluded, and silver has its values" if name.lower() in excluded else "not declared, and hashed"
            effect = f"the run fails: the column is {stays}; {_ANEW}"
            differences.append(_declared(name, "incompatible", column.data_type.simpleString(), "", effect, fails=True))
        elif name not in columns and name.lower() not in by_case:
            differences.append(
                _declared(name, "drop", column.data_type.simpleString(), "", "silver keeps the undeclared column")
            )
            columns[name] = replace(column, declared=False)
    return columns, differences


def _placing(table: Table) -> tuple[str, ...]:
    """The columns that rows are found by."""
    return (*table.key, *table.options.partition_by)


def _is_fixed(table: Table, name: str, wide: T.DataType, narrow: T.DataType) -> bool:
    """Whether rows are found by the texts of a column's values, which are others in the wider type."""
    if isinstance(wide, T.DecimalType) and isinstance(narrow, T.DecimalType):
        keeps_texts = wide.scale == narrow.scale
    else:
        keeps_texts = isinstance(wide, T.LongType)
    return name in _placing(table) and not keeps_texts


def _declared(column: str, kind: Kind, found: str, expected: str, effect: str, *, fails: bool = False) -> Difference:
    return Difference(column, kind, "declaration", found, expected, "", effect, fails)


@dataclass(frozen=True)
class _Finding:
    """What a field of the events makes of a run.

    `refused`: why an event with a value is quarantined; `column`: the column that silver gets, or gets anew.
    """

    name: str
    difference: Difference
    refused: str | None = None
    column: Column | None = None


def _with_version(
    table: Table, columns: Mapping[str, Column], version: Version
) -> tuple[dict[str, Column], Reading, list[Difference]]:
    """The columns after events of a version, how they are read, and how they differ from the columns before."""
    if table.excluded:
        excluded = {name.lower() for name in table.excluded}
        version = replace(version, fields=tuple(f for f in version.fields if f.name.lower() not in excluded))
    policy = table.options.schema_policy
    of_events = {name: column for name, column in columns.items() if column.substring_of is None}
    names, added, clashing = _matched(of_events, version)
    derived = {name.lower() for name in columns if name not in of_events}
    clashing += [
        (seen, f"column {seen.name} is derived from the key") for seen in added if seen.name.lower() in derived
    ]
    added = [seen for seen in added if seen.name.lower() not in derived]
    findings = [_refused(seen, "incompatible", "", policy.incompatible, why) for seen, why in clashing]
    if version.whole:
        findings += [
            finding for name, seen in names.items() if (finding := _of_column(columns[name], seen, table)) is not None
        ]
    findings += [_of_added(seen, table) for seen in added]
    required, dropped = _dropped(table, version, names)
    after = {**columns, **{finding.column.name: finding.column for finding in findings if finding.column is not None}}
    refused = {finding.name: finding.refused for finding in findings if finding.refused is not None}
    renamed = {name: seen.name for name, seen in names.items() if seen.name != name}
    differences = [*(finding.difference for finding in findings), *dropped]
    return after, Reading(renamed, refused, required), differences


def _of_column(column: Column, seen: EventField, table: Table) -> _Finding | None:
    """What a column's field makes of a run; None where both have one type, or nothing tells them apart."""
    policy = table.options.schema_policy
    expected = column.source_type.simpleString()
    if not is_convertible(seen.data_type, seen.semantic_type, column.source_type):
        message = f"column {column.name}: a {seen.data_type.simpleString()} is never a {expected}"
        return _refused(seen, "incompatible", expected, policy.incompatible, message)
    found = natural(seen, table)
    if found is None or _has_no_width(seen):
        return None
    if is_wider(found.data_type, column.source_type):
        is_fixed = _is_fixed(table, column.name, found.data_type, column.source_type)
        return _widened(column, found.data_type, policy, is_fixed=is_fixed)
    if is_wider(column.source_type, found.data_type):
        shown = found.data_type.simpleString()
        return _noted(column.name, "narrow", shown, expected, policy.narrow, "silver keeps its wider type")
    return None


def _widened(column: Column, to: T.DataType, policy: SchemaPolicy, *, is_fixed: bool) -> _Finding:
    """`is_fixed`: as `_is_fixed` says."""
    after, effect = None, "silver keeps its type; values that do not fit are quarantined"
    if is_fixed:
        effect = "silver keeps its type, by which rows are found; values that do not fit are quarantined"
    elif policy.widen == "evolve" and column.hashed_from is None:
        after, effect = replace(column, data_type=to), "silver's column is widened"
    elif policy.widen == "evolve" and is_hashable(to):
        after, effect = replace(column, hashed_from=to), "silver has the hashes of the wider values too"
    expected = column.source_type.simpleString()
    return _noted(column.name, "widen", to.simpleString(), expected, policy.widen, effect, after)


def _of_added(seen: EventField, table: Table) -> _Finding:
    """What a field that nobody declared makes of a run."""
    policy, found = table.options.schema_policy, natural(seen, table)
    shown = seen.data_type.simpleString()
    is_name = is_column_name(seen.name) and not RESERVED.fullmatch(seen.name.lower())
    if policy.add != "keep" and (found is None or not is_name):
        message = f"column {seen.name}: silver has no type for a {shown}"
        if found is not None:
            message = f"field '{seen.name}': silver cannot have a column of that name"
        return _refused(seen, "incompatible", "", policy.incompatible, message)
    if policy.add == "quarantine":
        return _refused(seen, "add", "", "quarantine", f"column {seen.name} is not declared")
    effect = "silver gets the column" if policy.add == "evolve" else "the column is left out"
    return _noted(seen.name, "add", shown, "", policy.add, effect, found if policy.add == "evolve" else None)


def _noted(
    name: str, kind: Kind, found: str, expected: str, chosen: str, effect: str, column: Column | None = None
) -> _Finding:
    message = "the run fails" if chosen == "fail" else effect
    return _Finding(
        name, Difference(name, kind, "events", found, expected, chosen, message, chosen == "fail"), column=column
    )


def _refused(seen: EventField, kind: Kind, expected: str, chosen: str, reason: str) -> _Finding:
    effect = f"quarantined where it has a value: {reason}"
    finding = _noted(seen.name, kind, seen.data_type.simpleString(), expected, chosen, effect)
    return replace(finding, refused=f"{reason} (schema_policy.{kind}: {chosen})" if chosen == "quarantine" else None)


def _dropped(
    table: Table, version: Version, names: Mapping[str, EventField]
) -> tuple[tuple[str, ...], list[Difference]]:
    """The declared columns that events lack, as far as they are required, and what that makes of a run.

    Only declared ones: events from before silver got another column cannot have it.
    """
    policy = table.options.schema_policy.drop
    effect = {
        "keep": "rows keep their last value, new rows have null",
        "quarantine": "events without it are quarantined",
        "fail": "the run fails",
    }[policy]
    lacking = [
        column
        for column in table.in_events.columns
        if (column.name not in names if version.whole else column.name in version.lacks)
        and column.name not in table.key
    ]
    differences = [
        Difference(
            column.name, "drop", "events", "", column.source_type.simpleString(), policy, effect, policy == "fail"
        )
        for column in lacking
    ]
    return tuple(column.name for column in lacking if policy == "quarantine"), differences


def _matched(
    columns: Mapping[str, Column], version: Version
) -> tuple[dict[str, EventField], list[EventField], list[tuple[EventField, str]]]:
    """The field of each column, the fields without a column, and those that clash by case, with what they clash with.

    The exact name wins; where there is none, the only name that differs by case is the column's.
    """
    exact = {seen.name: seen for seen in version.fields if seen.name in columns}
    by_case = {name.lower(): name for name in columns}
    matched, added = dict(exact), []
    clashing: list[tuple[EventField, str]] = []
    of_rows = [seen for seen in version.fields if not (version.has_metadata and RESERVED.fullmatch(seen.name))]
    rest = [seen for seen in of_rows if seen.name not in exact]
    for same in _grouped(rest).values():
        name = by_case.get(same[0].name.lower())
        others = [seen.name for seen in same]
        if name is not None and name not in exact and len(same) == 1:
            matched[name] = same[0]
        elif name is not None or len(same) > 1:
            known = [name] if name is not None else others
            clashing += [
                (seen, f"field {seen.name} differs by case alone from {', '.join(o for o in known if o != seen.name)}")
                for seen in same
            ]
        else:
            added.append(same[0])
    return matched, added, clashing


def _grouped(seen: Sequence[EventField]) -> dict[str, list[EventField]]:
    groups: dict[str, list[EventField]] = {}
    for item in seen:
        groups.setdefault(item.name.lower(), []).append(item)
    return groups


def renames(differences: Sequence[Difference]) -> Iterator[tuple[Difference, Difference]]:
    """Pairs of a dropped and an added column of one type: what a renamed column looks like."""
    dropped = [item for item in differences if item.kind == "drop" and item.place == "events"]
    for added in (item for item in differences if item.kind == "add" and item.place == "events"):
        same = [item for item in dropped if item.expected == added.found]
        if len(same) == 1:
            yield same[0], added
