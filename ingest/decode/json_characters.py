"""Characters in JSON texts that Spark's parser takes for other than they are."""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from ingest.schema.change import problem

# How the escape of half a character (a surrogate) begins; the next digit says which half it is.
_SURROGATE = r"\\u[dD]"


def text_problem(text: Expression) -> Expression:
    """What keeps the characters of a JSON text from being told, or null: of two texts one would be made.

    Spark takes any bytes for a text, and its parser puts U+FFFD for what is not UTF-8; for half a character, such as
    the escape \\ud800 without the other one of its pair, it puts a question mark.
    """
    no_utf8 = problem("invalid_json", "the text is not UTF-8")
    message = "a string holds half a character: an escape from \\ud800 to \\udfff without the other one of its pair"
    return F.when(~is_utf8(text), no_utf8).when(has_half_a_character(text), problem("invalid_json", message))


def is_utf8(text: Expression) -> Expression:
    """Whether a text's bytes are UTF-8."""
    return F.decode(text.cast("binary"), "UTF-8") == text


def has_half_a_character(text: Expression) -> Expression:
    """Whether a value in a JSON text has the escape of a surrogate that is none of a pair. Never null.

    Keys do not matter: no column has such a name.
    """
    # Without escaped backslashes and quotes each backslash begins an escape, and each quote begins or ends a string.
    plain = F.regexp_replace(text, r'\\["\\]', "/")
    alone = F.regexp_replace(plain, rf"{_SURROGATE}[89abAB]..\\u[dD][c-fC-F]..", "")
    has_any = text.contains(r"\ud") | text.contains(r"\uD")
    return F.coalesce(has_any & alone.rlike(_SURROGATE + r'[89a-fA-F][^"]*+"\s*+(?!:)'), F.lit(False))
