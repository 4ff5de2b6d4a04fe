"""What is broken of `ingest/changes`: order, ties, late events, truncates, unavailable values."""

from __future__ import annotations

from dev.mutations.base import KEYS, LOST, MENDED, ORDER, TORTURE, UPKEEP, VALUES, Mutation, scene

CHANGES = (
    Mutation(
        "order reversed",
        "ingest/changes/latest.py",
        'orderBy(F.col("__position").desc())',
        'orderBy("__position")',
        (ORDER,),
    ),
    Mutation(
        "no offset breaks a tie",
        "ingest/changes/position.py",
        'F.concat(F.lit(epoch), log, F.lit("/"), F.lower(offset))',
        'F.concat(F.lit(epoch), log, F.lit("/"))',
        (ORDER,),
    ),
    Mutation(
        "epoch left out",
        "ingest/changes/position.py",
        'F.concat(F.lit(epoch), log, F.lit("/"), F.lower(offset))',
        'F.concat(F.lit("0000."), log, F.lit("/"), F.lower(offset))',
        (f"{UPKEEP}::test_an_epoch_lets_a_log_that_begins_again_win",),
    ),
    Mutation(
        "open transactions lose against the snapshot",
        "ingest/changes/late.py",
        "raised.when(counts, from_held)",
        "raised",
        scene("a_transaction_that_was_open_during_the_snapshot_wins_in_later_batches"),
    ),
    Mutation(
        "a key changed by an open transaction loses its values",
        "ingest/changes/unavailable.py",
        "is_before |= was_open(",
        "is_before & was_open(",
        (MENDED,),
    ),
    Mutation(
        "origin of carried values forgotten",
        "ingest/changes/unavailable.py",
        'F.coalesce(carried[name], F.col("__position"))',
        'F.col("__position")',
        scene("a_value_that_comes_late_reaches_the_row_that_carried_an_older_one"),
    ),
    Mutation(
        "truncate floor ignored",
        "ingest/changes/late.py",
        "F.when(precedes_truncate(truncate, table),",
        "F.when(F.lit(False),",
        scene("a_truncate_empties_the_table_and_what_is_older_stays_gone"),
    ),
    Mutation(
        "purge floor ignored",
        "ingest/changes/late.py",
        'F.col("_lake_held").isNull() & (position <= purged)',
        "F.lit(False)",
        (f"{UPKEEP}::test_purged_tombstones_do_not_let_older_events_back_in",),
    ),
    Mutation(
        "repeated events counted as superseded",
        "ingest/changes/latest.py",
        "F.lag(log_of()).over(newest_first) == log_of()",
        "F.lit(False)",
        (ORDER,),
    ),
    Mutation(
        "of a tie the first delivered counts",
        "ingest/changes/late.py",
        'counts_again |= ties & after & ~whole_row(table).eqNullSafe(F.col("_lake_held_row"))',
        "pass",
        (TORTURE,),
    ),
    Mutation(
        "composite keys joined without separators",
        "ingest/changes/position.py",
        "F.to_json(F.array(*(",
        'F.concat_ws(",", *((',
        scene("keys_with_separators_unicode_empty_texts_and_nulls_stay_apart"),
    ),
    Mutation(
        "a row of an incremental snapshot wins whenever it comes",
        "ingest/changes/late.py",
        '.when((F.col("_lake_unplaced") | F.col("_lake_held_unplaced")) & ~_is_after(), "superseded")',
        "",
        (MENDED,),
    ),
    Mutation(
        "a place leaves out the partition",
        "ingest/changes/latest.py",
        'F.lit("")) for name in ORIGIN)',
        'F.lit("")) for name in ORIGIN[1:])',
        (f"{LOST}::test_bad_records_at_one_offset_of_two_partitions_are_two",),
    ),
    Mutation(
        "a row that comes again after a bare tombstone is a duplicate",
        "ingest/changes/late.py",
        'counts_again |= F.col("_lake_held_unplaced") & F.col("_lake_held_deleted") & after & ~F.col("_lake_unplaced")',
        "pass",
        (f"{KEYS}::test_bare_tombstones_are_what_the_declaration_says",),
    ),
    Mutation(
        "a bare tombstone of an unknown key loses its epoch",
        "ingest/changes/position.py",
        "F.when(~is_read() & ~is_unplaced(table) & commit_lsn",
        "F.when(~is_read() & commit_lsn",
        (f"{KEYS}::test_a_bare_tombstone_that_overtakes_its_row_deletes_it",),
    ),
    Mutation(
        "a row that came again stays before the tombstones that wait",
        "ingest/changes/late.py",
        'counts_again |= after & ~F.col("_lake_unplaced")',
        "pass",
        (f"{KEYS}::test_a_row_that_came_again_behind_a_tombstone_outlives_its_replay",),
    ),
    Mutation(
        "a truncate makes one row of a table without a key",
        "ingest/changes/truncates.py",
        '**({"__position": F.lit(truncate.position)} if table.key else {}),',
        '"__position": F.lit(truncate.position),',
        (f"{LOST}::test_a_truncate_empties_a_table_without_a_key",),
    ),
    Mutation(
        "changes that tie are one change",
        "ingest/changes/latest.py",
        "        is_same &= F.lag(row).over(newest_first).eqNullSafe(row)\n",
        "        pass\n",
        (f"{VALUES}::test_debeziums_own_fields_order_changes_and_ties_are_counted",),
    ),
)
