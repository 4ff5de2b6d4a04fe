"""What is broken of what is written: `ingest/silver`, and the session that writes it."""

from __future__ import annotations

from dev.mutations.base import BAD, HISTORY, KEYS, PLACES, SECURITY, TORTURE, VALUES, Mutation

SILVER = (
    Mutation(
        "commits that seem older than their requests stay so",
        "ingest/silver/timeline.py",
        "while unsettled := self._unsettled():",
        "while unsettled := None:",
        ("tests/athena/test_silver.py::test_every_batch_is_seen_however_quickly_it_was_compacted",),
    ),
    Mutation(
        "a table of an older version with several partition columns is written once",
        "ingest/silver/hudi.py",
        '**(_KEYS_ARE_STORED_ALIKE if generator == "Complex" else {}),',
        "",
        (f"{PLACES}::test_a_key_has_one_row",),
    ),
    Mutation(
        "a bulk insert writes a bloom filter of 440 kB",
        "ingest/silver/hudi.py",
        '"hoodie.index.bloom.num_entries": "1",',
        "",
        (f"{PLACES}::test_a_key_has_one_row",),
    ),
    Mutation(
        "a row that moves stays where it was",
        "ingest/silver/places.py",
        'if found["leave"]:',
        "if False:",
        (f"{PLACES}::test_a_key_has_one_row",),
    ),
    Mutation(
        "rows that came to a partition are not noted",
        "ingest/silver/places.py",
        "if not notes:",
        "if True:",
        (f"{PLACES}::test_a_key_has_one_row",),
    ),
    Mutation(
        "a commit without a note is taken for one of none",
        "ingest/silver/places.py",
        "return None if any(note is None for note in notes) else [str(note) for note in notes if note != NONE_ARRIVED]",
        "return [str(note) for note in notes if note not in (None, NONE_ARRIVED)]",
        (f"{PLACES}::test_a_key_has_one_row",),
    ),
    Mutation(
        "a row that may be elsewhere is not noted",
        "ingest/silver/places.py",
        ' | (F.size("_lake_leaves") > 0)\n',
        "\n",
        (f"{PLACES}::test_a_row_that_moves_back_behind_a_planned_compaction_is_found",),
    ),
    Mutation(
        "bad events not written to the quarantine",
        "ingest/silver/quarantine.py",
        '    of(table.schema).write(spark, rows, "upsert")\n    return again\n',
        "    return again\n",
        (f"{BAD}::test_every_bad_line_is_quarantined_with_reason_place_and_bytes",),
    ),
    Mutation(
        "a history knows changes by their delivery",
        "ingest/silver/change_log.py",
        "F.concat(epoch, place)",
        'F.col("__position")',
        (TORTURE, HISTORY),
    ),
    Mutation(
        "a history leaves open transactions where they were",
        "ingest/silver/change_log.py",
        "if raised is not None and",
        "if False and",
        (HISTORY,),
    ),
    Mutation(
        "a history moves rows of incremental snapshots",
        "ingest/silver/change_log.py",
        "rank = F.when(is_unplaced(table),",
        "rank = F.when(F.lit(False),",
        (HISTORY,),
    ),
    Mutation(
        "a history forgets what changed keys bring along",
        "ingest/silver/change_log.py",
        "if filled is not None:",
        "if False:",
        (HISTORY,),
    ),
    Mutation(
        "a history that begins late begins empty",
        "ingest/silver/change_log.py",
        "    if begins:\n",
        "    if False:\n",
        (HISTORY,),
    ),
    Mutation(
        "erased keys come back",
        "ingest/silver/erased_keys.py",
        "    if not salts:\n",
        "    if True:\n",
        (f"{SECURITY}::test_an_erased_key_is_in_no_file_and_no_older_event_brings_it_back",),
    ),
    Mutation(
        "no rebase mode is set",
        "profiles/profiles.yml",
        "spark.sql.parquet.datetimeRebaseModeInWrite: CORRECTED",
        "spark.sql.parquet.datetimeRebaseModeInWrite: EXCEPTION",
        (f"{VALUES}::test_old_dates_and_timestamps_are_landed_everywhere",),
    ),
    Mutation(
        "what waits in the quarantine is younger with each run",
        "ingest/silver/quarantine.py",
        'F.coalesce("_lake_since", "quarantined_at")',
        'F.col("quarantined_at")',
        (f"{KEYS}::test_what_waits_in_the_quarantine_is_counted_once_though_a_run_is_killed",),
    ),
    Mutation(
        "a clock that was set back is not noticed",
        "ingest/silver/hudi.py",
        "            self.timeline.await_past()\n",
        "            pass\n",
        ("tests/ingest/test_habits_of_hudi.py::test_a_clock_that_was_set_back_is_refused",),
    ),
    Mutation(
        "a row of an incremental snapshot stands before the changes of its partition",
        "ingest/silver/change_log.py",
        '        logs.append(F.col("_lake_last"))\n',
        "",
        (f"{HISTORY}::test_a_row_of_an_incremental_snapshot_stands_amid_the_changes_of_its_partition",),
    ),
)
