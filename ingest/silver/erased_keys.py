"""What silver remembers of erased keys, so that no event that is delivered again brings one back.

One Hudi table of the source, beside its quarantine. It does not hold the keys, but their hashes: HMAC-SHA256 with the
connection's salt, or plain SHA-256 where there is none. `State.erased` says whether it is read at all, and
`State.erased_ids` what it must hold: where it was lost, all of them have to be erased again.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Set
from dataclasses import replace

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.changes.position import delivery_of, epoch_of, is_unplaced, log_of
from ingest.config.tables import Table
from ingest.errors import WriteError
from ingest.schema.connectors import order_of
from ingest.schema.masking import fingerprint, keyed_hash, salt_of, with_salt
from ingest.silver.ledger import Ledger
from ingest.silver.state import State

# A state notes so many keys, each by 32 bits; of more it notes how many they are.
_MOST_NOTED = 20_000


def erased_keys(schema: str) -> Ledger:
    """The erased keys of the source with that schema."""
    return Ledger(schema, "_erased", key="erased_id", ordering="position")


def remember(keys: DataFrame, table: Table, state: State, places: DataFrame) -> State:
    """Writes the keys to the table of erased keys; the state with all that are erased by now.

    Keys that the table of erased keys has lost stay in the state: they are to be erased again.

    Parameters
    ----------
    keys:
        Column `key`: record keys as text.
    state:
        Of silver: events that are no later than what it has read are ignored from now on, if of such a key.
    places:
        Columns `key` and `__position`: where the changes stand that are known of the keys. Looked at where each row has
        an order of its own: the last of its own changes is what was read of it. Of a key without any the time of the
        erasure says it.

    Raises
    ------
    WriteError
        The table could not be written.
    """
    salt = salt_of(table)
    log, _, delivered = state.watermark.partition("/")
    offset = max(delivered.partition("-")[2], state.unplaced)
    read_to = F.lit(f"{log}/{offset}")
    if order_of(table).is_of_each_row:
        last = places.groupBy("key").agg(F.max(F.substring_index("__position", "/", 1)).alias("_lake_log"))
        keys = keys.join(F.broadcast(last), "key", "left")
        read_to = F.concat(F.coalesce("_lake_log", F.lit("")), F.lit(f"/{offset}"))
    hashed = with_salt(keys, table).select(
        _hash(F.col("key"), table, salted=bool(salt)).alias("key_hash"), read_to.alias("position")
    )
    rows = hashed.select(
        F.sha2(F.concat_ws("|", F.lit(table.name), "key_hash"), 256).alias("erased_id"),
        F.lit(table.name).alias("source_table"),
        "key_hash",
        F.lit(fingerprint(salt) if salt else "").alias("salt"),
        "position",
        F.current_timestamp().alias("erased_at"),
    )
    erased_keys(table.schema).write(keys.sparkSession, rows, "upsert")
    erased = tuple(sorted({*state.erased, fingerprint(salt) if salt else ""}))
    known = _known(keys.sparkSession, table)
    assert known is not None
    return replace(state, erased=erased, erased_ids=noted(state.erased_ids, _ids_in(known)))


def knowing_erased(spark: SparkSession, table: Table, state: State) -> State:
    """The state of a table that is landed anew: its keys were erased before, and its events may come again.

    Raises
    ------
    WriteError
        They were erased with another salt: no event would be known as one of theirs.
    """
    known = _known(spark, table)
    if known is None:
        return state
    salts = tuple(sorted(row["salt"] for row in known.select("salt").distinct().collect()))
    if others := set(salts) - {"", fingerprint(salt_of(table))}:
        raise WriteError(
            "keys of the table were erased with another hash_salt than the connection has now",
            where=table.where,
            expected=f"the salt with the fingerprint {', '.join(sorted(others))}: erased keys are known by it",
            action="set the variable as before; or give the table another `identifier`, and erase its keys once more "
            "when it is landed. Nothing was landed",
        )
    return replace(state, erased=salts, erased_ids=noted("", _ids_in(known)) if salts else "")


def _known(spark: SparkSession, table: Table) -> DataFrame | None:
    """The erased keys of a table."""
    every = erased_keys(table.schema).read(spark)
    return None if every is None else every.where(F.col("source_table") == table.name)


# Short hashes of erased keys; of more than are noted how many they are.
Ids = Set[int] | int


def _ids_in(known: DataFrame) -> Ids:
    short = F.shiftrightunsigned(F.xxhash64("erased_id"), 32).alias("id")
    rows = known.select(short).limit(_MOST_NOTED + 1).collect()
    return {row["id"] for row in rows} if len(rows) <= _MOST_NOTED else known.count()


def _number(ids: Ids) -> int:
    return len(ids) if isinstance(ids, Set) else ids


def noted(note: str, ids: Ids) -> str:
    """`State.erased_ids` of the keys in a note and of others."""
    before = _ids_of(note)
    if not (isinstance(before, Set) and isinstance(ids, Set)):
        return str(max(_number(before), _number(ids)))
    every = ids | before
    if len(every) > _MOST_NOTED:
        return str(len(every))
    return "b" + base64.b64encode(struct.pack(f">{len(every)}I", *sorted(every))).decode()


def _ids_of(note: str) -> Ids:
    """The keys of a note, or how many they are."""
    if note.isdecimal():
        return int(note)
    data = base64.b64decode(note[1:])
    return set(struct.unpack(f">{len(data) // 4}I", data))


def lacking(note: str, ids: Ids) -> int:
    """How many keys of a note are not among the known ones."""
    before = _ids_of(note)
    if isinstance(before, Set) and isinstance(ids, Set):
        return len(before - ids)
    return max(0, _number(before) - _number(ids))


def without_erased(changes: DataFrame, table: Table, state: State) -> tuple[DataFrame, State]:
    """The changes; those of erased keys mean nothing (`_lake_ignored`), up to the place in the log of the erasure.

    Returned is also the state, with what an older version had not noted.

    A row without a place in the log came before it if it was read before; a bare tombstone, which has no time either,
    by its offset, in whichever partition.

    Parameters
    ----------
    changes:
        Decoded changes with their positions.
    state:
        Of silver.

    Raises
    ------
    WriteError
        Keys were erased, and nothing says which.
    """
    if not state.erased:
        return changes, state
    columns = changes.columns
    erased = _known(changes.sparkSession, table)
    ids: Ids = _ids_in(erased) if erased is not None else set()
    if erased is None or not ids or lacking(state.erased_ids, ids):
        raise WriteError(
            f"keys of the table were erased, and the table of erased keys has {_told(state.erased_ids, ids)}",
            where=table.relation,
            expected=f"their hashes in {table.schema}._erased: without them, events that come again bring keys back",
            action=f"restore that table from a copy; or erase all of them again: `lake erase {table.source} --table "
            f"{table.name} --keys ...` writes it anew. Nothing was landed",
        )
    for salt in state.erased:
        mine = erased.where(F.col("salt") == salt).select(
            F.col("key_hash").alias("_lake_erased_key"),
            F.col("position").alias("_lake_erased_to"),
            F.col("erased_at").alias("_lake_erased_at"),
        )
        rows = with_salt(changes, table) if salt else changes
        key = F.col(f"`{table.record_key}`").cast("string")
        hashed = rows.withColumn("_lake_hash", _hash(key, table, salted=bool(salt)))
        joined = hashed.join(F.broadcast(mine), F.col("_lake_hash") == F.col("_lake_erased_key"), "left")
        gone = F.col("_lake_erased_key").isNotNull() & _is_before_erasure(table)
        changes = joined.withColumn("_lake_ignored", F.col("_lake_ignored") | gone).select(
            *(f"`{name}`" for name in columns)
        )
    return changes, replace(state, erased_ids=noted(state.erased_ids, ids))


def _told(note: str, ids: Ids) -> str:
    return f"not {lacking(note, ids):,} of the {_number(_ids_of(note)):,}" if ids else "none of them"


def _is_before_erasure(table: Table) -> Expression:
    """Whether a change of an erased key is no later than the erasure. Never null.

    Places of another epoch cannot be compared: its changes are known by their times.
    """
    erased_to = F.split("_lake_erased_to", "/")
    is_read_before = F.col("__source_ts_ms") < F.unix_millis("_lake_erased_at")
    delivered = F.concat(epoch_of("__position"), delivery_of(F.col("__position")))
    # Earlier versions did not remember the offset.
    is_delivered_before = F.coalesce(delivered <= F.concat(epoch_of("_lake_erased_to"), erased_to[1]), F.lit(True))
    is_placed_before = log_of() <= erased_to[0]
    is_later = epoch_of("__position") > epoch_of("_lake_erased_to")
    return (
        F.when(is_unplaced(table), F.coalesce(is_read_before, is_delivered_before))
        .when(is_later, F.coalesce(is_read_before, F.lit(False)))
        .otherwise(is_placed_before)
    )


def _hash(key: Expression, table: Table, *, salted: bool) -> Expression:
    data = F.concat(F.lit(f"{table.name}|"), key).cast("binary")
    return keyed_hash(data) if salted else F.sha2(data, 256)
