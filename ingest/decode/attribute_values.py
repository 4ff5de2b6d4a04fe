"""DynamoDB's attribute values: how a stream's records write them, and what is within lists and maps as plain JSON.

A value stands in an object with one member, whose name is its type: `{"S": "text"}`, `{"N": "12.50"}`,
`{"M": {"city": {"S": "Graz"}}}`. Source: the DynamoDB API Reference, "AttributeValue".
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql import types as T

_TEXTS, _FLAGS, _WHOLE, _SETS = ("S", "N", "B"), ("BOOL", "NULL"), ("L", "M"), ("SS", "NS", "BS")
# A value as Spark reads it: of a list and a map the text that is within.
ATTRIBUTE = T.StructType(
    [
        *(T.StructField(name, T.StringType()) for name in (*_TEXTS, *_WHOLE)),
        *(T.StructField(name, T.BooleanType()) for name in _FLAGS),
        *(T.StructField(name, T.ArrayType(T.StringType())) for name in _SETS),
    ]
)
# A number as JSON writes one: what DynamoDB sends of a number always is.
NUMBER = r"^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?\z"
# In the text of a record, outside its strings: a scalar whose value is no string.
NO_STRING = r'"(?:S|N|B)"\s*:\s*[^"{\s]'
# DynamoDB nests no deeper ("Service, account, and table quotas").
_LEVELS = 32
# The same number, of which every character is written as two hexadecimal digits.
_HEX_NUMBER = "(?:2D)?(?:30|3[1-9](?:3[0-9])*+)(?:2E(?:3[0-9])++)?(?:[46]5(?:2[BD])?(?:3[0-9])++)?"  # - 0 1-9 . e + -
_HEX = "[0-9A-F]*+"
_STRINGS = rf'"{_HEX}"(?:,"{_HEX}")*+'
_NUMBERS = f'"{_HEX_NUMBER}"(?:,"{_HEX_NUMBER}")*+'
# What no value holds: a string, a literal or an array that no type stands before.
_BARE = "|".join(
    [
        rf'"(?!(?:53|4E|42)"){_HEX}":"',
        rf'"(?!(?:424F4F4C|4E554C4C)"){_HEX}":[^"{{\[]',
        rf'"(?!(?:5353|4E53|4253|4C)"){_HEX}":\[',
        r'"4C":\["',
        rf'[}}\]],"{_HEX}"[,\]]',
        r'[\[,](?!["{\]])',
    ]
)


def type_of(attribute: Expression) -> Expression:
    """The type of a value, such as 'S'; null of what has none that is known, or more than one."""
    names = (*_TEXTS, *_WHOLE, "BOOL", *_SETS)
    found = [F.when(attribute[name].isNotNull(), F.lit(name)) for name in names]
    types = F.array_compact(F.array(*found, F.when(attribute["NULL"], F.lit("NULL"))))
    return F.when(F.size(types) == 1, types[0])


def plain_json(attribute: Expression, kind: str) -> Expression:
    """What is within a list or map (`kind` is L or M), as plain JSON: `{"city": "Graz"}`. Null where that holds
    anything but values.

    Numbers have all their digits. Bytes are base64, sets are arrays.

    Spark has no recursion. What is innermost is rewritten in brackets of another kind first, then what is around it,
    level by level; strings are hexadecimal meanwhile, so that no bracket stands within one.
    """
    strings = F.transform(
        F.regexp_extract_all(attribute[kind], F.lit(r'"(?:[^"\\]++|\\.)*+"|[^"]++'), F.lit(0)),
        lambda token: F.when(
            token.startswith('"'), F.concat(F.lit('"'), F.hex(token.substr(F.lit(2), F.length(token) - 2)), F.lit('"'))
        ).otherwise(token),
    )
    # The value as a whole, with its type.
    encoded = F.concat(F.lit(f'{{"{kind.encode().hex().upper()}":'), F.array_join(strings, ""), F.lit("}"))
    text = F.when(~encoded.rlike(_BARE), encoded)
    # What was rewritten is written as no value is: an attribute may have the name of a type.
    for pattern, replacement in (
        (rf'\{{"(?:53|42)":"({_HEX})"\}}', "'$1'"),
        (rf'\{{"4E":"({_HEX_NUMBER})"\}}', "#$1#"),
        (r'\{"424F4F4C":(true|false)\}', "!$1"),
        (r'\{"4E554C4C":true\}', "!null"),
        (rf'\{{"(?:5353|4253)":\[((?:{_STRINGS})?)\]\}}', "<$1>"),
        (rf'\{{"4E53":\[((?:{_NUMBERS})?)\]\}}', "<~$1~>"),
    ):
        text = F.regexp_replace(text, pattern, replacement)
    levels = F.least(F.regexp_count(encoded, F.lit(r'"4[CD]":[\[{]')), F.lit(_LEVELS))
    text = F.aggregate(F.sequence(F.lit(0), levels), text, lambda rewritten, _: _outwards(rewritten))
    is_whole = text.rlike(r"^[<(][^\[\]{}]*+$")
    tokens = F.regexp_extract_all(
        F.when(is_whole, text), F.lit(r"""["'][0-9A-F]*+["']|#[0-9A-F]++#|~[^~]*+~|[^"'#~]++"""), F.lit(0)
    )
    return F.array_join(F.transform(tokens, _decoded), "")


def _outwards(text: Expression) -> Expression:
    """The text, with the lists and maps rewritten that hold none any more."""
    lists = F.regexp_replace(text, r'\{"4C":\[([^\[\]{}]*+)\]\}', "<$1>")
    return F.regexp_replace(lists, r'\{"4D":\{([^\[\]{}]*+)\}\}', "($1)")


def _decoded(token: Expression) -> Expression:
    within = F.translate(token, "\"'#~", "")
    numbers = F.transform(F.split(within, ","), lambda each: F.unhex(each).cast("string"))
    return (
        F.when(token.rlike("^[\"']"), F.concat(F.lit('"'), F.unhex(within).cast("string"), F.lit('"')))
        .when(token.startswith("#"), F.unhex(within).cast("string"))
        .when(token.startswith("~"), F.array_join(numbers, ","))
        .otherwise(F.translate(token, "<>()!", "[]{}"))
    )
