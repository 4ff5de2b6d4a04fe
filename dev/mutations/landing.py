"""What is broken of a batch and of the commands beside it: `ingest/landing`, `ingest/operations`."""

from __future__ import annotations

from dev.mutations.base import EXAMPLES, KEYS, LATER_BATCHES, LOST, MENDED, TRANSACTIONS, UPKEEP, Mutation, scene

LANDING = (
    Mutation(
        "late changes not judged",
        "ingest/landing/batch.py",
        "    if not batch.found.late or batch.state is None:\n",
        "    if True:\n",
        (LATER_BATCHES,),
    ),
    Mutation(
        "snapshots amid the stream not placed",
        "ingest/landing/batch.py",
        "    if batch.found.mixed:\n",
        "    if False:\n",
        scene("a_transaction_that_was_open_during_the_snapshot_wins_in_one_batch"),
    ),
    Mutation(
        "unavailable values not filled",
        "ingest/landing/batch.py",
        "    if found.unavailable and table.key:\n",
        "    if False:\n",
        scene("an_unavailable_value_keeps_what_silver_has"),
    ),
    Mutation(
        "late values do not reach rows that carry older ones",
        "ingest/landing/batch.py",
        '    if any(row["carries"] for row in found):\n',
        "    if False:\n",
        scene("a_value_that_comes_late_reaches_the_row_that_carried_an_older_one"),
    ),
    Mutation(
        "a truncate leaves the rows of silver",
        "ingest/landing/batch.py",
        "if not batch.found.truncates or batch.state is None or not is_new:",
        "if True:",
        scene("a_truncate_empties_the_table_and_what_is_older_stays_gone"),
    ),
    Mutation(
        "a replay settles nothing",
        "ingest/operations/replay.py",
        "    quarantine.settle(spark, table, kept)\n",
        "",
        (f"{UPKEEP}::test_a_replay_applies_what_can_be_applied_by_now_and_nothing_twice",),
    ),
    Mutation(
        "the position does not advance",
        "ingest/landing/batch.py",
        "        position=position,\n",
        "        position=before.position or position,\n",
        (LATER_BATCHES,),
    ),
    Mutation(
        "totals forget earlier runs",
        "ingest/landing/batch.py",
        "totals = before.totals + (",
        "totals = Counts() + (",
        (LATER_BATCHES,),
    ),
    Mutation(
        "a key change does not look for the row it left",
        "ingest/landing/completion.py",
        "        for commit in gone.join(",
        "        for commit in gone.limit(0).join(",
        (MENDED,),
    ),
    Mutation(
        "what waits in the quarantine is counted again",
        "ingest/landing/batch.py",
        'counts=batch.counts.moved(again, "quarantined", "duplicate")',
        "counts=batch.counts",
        (MENDED,),
    ),
    Mutation(
        "every transaction may pass",
        "ingest/landing/transactions.py",
        'whole = ended if blocked_at is None else ended.where(F.col("place") < blocked_at)',
        "whole = ended",
        (TRANSACTIONS,),
    ),
    Mutation(
        "a cut though a table has failed",
        "ingest/landing/run.py",
        "if is_consistent(tables) and not any(landed.error for landed in results):",
        "if is_consistent(tables):",
        (TRANSACTIONS,),
    ),
    Mutation(
        "misread events are quarantined",
        "ingest/landing/batch.py",
        "    if batch.found.misread:\n",
        "    if False:\n",
        (EXAMPLES,),
    ),
    Mutation(
        "nothing is compacted beside the batches",
        "ingest/landing/continuous.py",
        "self._asked[silver.table.name] = self._pool.submit(self._keep_up, silver, is_behind)",
        "pass",
        (f"{UPKEEP}::test_a_table_is_compacted_beside_its_batches",),
    ),
    Mutation(
        "a new table is made for its first portion",
        "ingest/landing/batch.py",
        "round(found.keys / share)",
        "found.keys",
        (f"{UPKEEP}::test_a_folder_is_landed_in_portions_and_the_table_made_for_all_of_it",),
    ),
    Mutation(
        "tombstones that nothing explains are ignored",
        "ingest/landing/batch.py",
        "    if tombstones and not (",
        "    if False and not (",
        (f"{KEYS}::test_bare_tombstones_are_what_the_declaration_says",),
    ),
    Mutation(
        "a tombstone keeps nothing of its batch",
        "ingest/landing/batch.py",
        "    if found.removed:\n",
        "    if False:\n",
        (f"{LOST}::test_a_changed_key_brings_values_that_only_its_first_batch_had",),
    ),
)
