"""Flat JSON objects that are all written alike, cut at their commas instead of parsed.

Kafka Connect's converter writes every event of a table without white space, with the same keys in the same order. To
cut such a text takes half of what parsing it takes, and its keys are known with it
(docs/decisions/0020-json-is-read-by-examples.md). Nothing is taken on trust: a text counts as cut where its values,
written again between the keys, are the same text, and its strings hold no character that JSON wants escaped (RFC 8259,
section 7). Every other text is left to the parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from json import JSONDecoder

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

# Whether a text was cut; the values of its members stand in their `value_column` then.
IS_CUT = "_lake_is_cut"
# The characters that a string must not hold as they are, as a class of a pattern.
_ESCAPED = r'"\\\x00-\x1f'
# How the values of a member are written, nulls aside.
_TEXT = rf'"[^{_ESCAPED}]*"'
_QUOTING_TEXT = rf'"(?:[^{_ESCAPED}]|\\")*"'
_WHOLE = r"-?\d+"
_FRACTION = r"-?\d+\.\d+(?:E-?\d+)?"
_BOOLEAN = r"true|false"
_KINDS = (_TEXT, _QUOTING_TEXT, _WHOLE, _FRACTION, _BOOLEAN)
_NULL = "null"
_MEMBER = re.compile(rf'[{{,]"([^,{_ESCAPED}]+)":')


@dataclass(frozen=True)
class _Member:
    """A key, how its values are written, and how many commas stand in each."""

    name: str
    kind: str
    commas: int


@dataclass(frozen=True)
class FlatForm:
    """How the objects are written: their members, in order."""

    members: tuple[_Member, ...]

    @classmethod
    def of(cls, texts: Sequence[str]) -> FlatForm | None:
        """The form that all of some examples have; None where they have none, or more than one."""
        try:
            found = [tuple(_members(text)) for text in texts]
        except ValueError:
            return None
        names = {tuple(name for name, _ in members) for members in found}
        if len(names) != 1 or any(len(set(each)) < len(each) for each in names):
            return None
        members = []
        for values in zip(*found, strict=True):
            written = [text for _, text in values if text != _NULL]
            kind = next((kind for kind in _KINDS if all(re.fullmatch(kind, text) for text in written)), None)
            commas = {text.count(",") for _, text in values}
            if kind is None or len(commas) > 1:
                return None
            members.append(_Member(values[0][0], kind if written else _NULL, commas.pop()))
        return cls(tuple(members))

    def cut(self, lines: DataFrame, types: Mapping[str, T.DataType]) -> DataFrame:
        """The lines with what their texts hold.

        Parameters
        ----------
        lines:
            Column `value` string, and others.
        types:
            The members that are wanted, and whether as string, bigint or boolean.

        Adds
        ----
        `_lake_is_cut` boolean:
            Whether the text is of this form; never null.
        `value_column(name)` of each member that is wanted:
            Its value; undefined where the text is not of this form.
        """
        others = [F.col(f"`{name}`") for name in lines.columns]
        ends = accumulate(member.commas + 1 for member in self.members)
        texts = [self._text(number, end).alias(f"_lake_text_{number}") for number, end in enumerate(ends)]
        values = [
            _value(F.col(f"_lake_text_{number}"), member, types[member.name]).alias(value_column(member.name))
            for number, member in enumerate(self.members)
            if member.name in types
        ]
        return (
            lines.select(*others, F.split("value", ",").alias("_lake_pieces"))
            .select(*others, *texts)
            .select(*others, self._is_whole().alias(IS_CUT), *values)
        )

    def _text(self, number: int, end: int) -> Expression:
        """The text of a member's value without its quotes, null for null, if the pieces are of this form.

        `end`: how many pieces there are up to its last one.
        """
        member = self.members[number]
        before = ("" if number else "{") + _key(member)
        behind = "" if number < len(self.members) - 1 else "}"
        if member.commas:
            piece = F.array_join(F.slice("_lake_pieces", end - member.commas, member.commas + 1), ",")
        else:
            piece = F.get("_lake_pieces", F.lit(end - 1))
        quote = '"' if _is_text(member) else ""
        return F.when(piece != f"{before}{_NULL}{behind}", between(piece, before + quote, quote + behind))

    def _is_whole(self) -> Expression:
        """Whether the values, written again, are the text, and its strings are such as need no parser."""
        again: list[Expression] = []
        strings, is_clean = [], F.lit(True)
        for number, member in enumerate(self.members):
            text = F.col(f"_lake_text_{number}")
            if member.kind == _TEXT:
                strings.append(text)
            if member.kind == _QUOTING_TEXT:
                is_clean &= F.coalesce(F.concat(F.lit('"'), text, F.lit('"')).rlike(f"^{member.kind}$"), F.lit(True))
            again += [
                F.lit(("," if number else "{") + _key(member)),
                F.coalesce(_again(text, member), F.lit(_NULL)),
            ]
        is_whole = F.concat(*again, F.lit("}")) == F.col("value")
        if strings:
            is_clean &= ~F.concat_ws("", *strings).rlike(f"[{_ESCAPED}]")
        return F.coalesce(is_whole & is_clean, F.lit(False))


def value_column(name: str) -> str:
    """The column of a member's value."""
    return f"_lake_cut_{name}"


def _members(text: str) -> Iterator[tuple[str, str]]:
    """The names and values, as they are written, of a flat object without white space.

    Raises
    ------
    ValueError
        The text is something else.
    """
    decoder, at = JSONDecoder(), 0
    while text[at:] != "}":
        found = _MEMBER.match(text, at)
        if found is None or (text[at] == "{") != (at == 0):
            raise ValueError(text)
        _, end = decoder.raw_decode(text, found.end())
        yield found[1], text[found.end() : end]
        at = end


def _key(member: _Member) -> str:
    return f'"{member.name}":'


def _is_text(member: _Member) -> bool:
    return member.kind in (_TEXT, _QUOTING_TEXT)


def between(text: Expression, before: str, behind: str) -> Expression:
    """What is left of a text without its beginning and its end. By bytes: to count characters costs more."""
    start, around = len(before.encode()), len((before + behind).encode())
    length = [F.octet_length(text) - F.lit(around)] if behind else [F.lit(2**31 - 1)]
    return F.substr(text.cast("binary"), F.lit(start + 1), *length).cast("string")


def _again(text: Expression, member: _Member) -> Expression:
    """A member's value as Spark's JSON parser would write it again; null for null, and for what is of another kind.

    A fraction is a double to that parser.
    """
    if _is_text(member):
        return F.concat(F.lit('"'), text, F.lit('"'))
    if member.kind == _WHOLE:
        return text.cast("bigint").cast("string")
    if member.kind == _FRACTION:
        number = text.cast("double")
        return F.when(F.abs(number) < float("inf"), number.cast("string"))
    return F.when(text.isin("true", "false"), text) if member.kind == _BOOLEAN else F.lit(None).cast("string")


def _value(text: Expression, member: _Member, data_type: T.DataType) -> Expression:
    if isinstance(data_type, T.LongType):
        return text.cast("bigint")
    if isinstance(data_type, T.BooleanType):
        return text == "true"
    return F.replace(text, F.lit('\\"'), F.lit('"')) if member.kind == _QUOTING_TEXT else text
