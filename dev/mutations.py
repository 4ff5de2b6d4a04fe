"""Breaks ingest and increments in one place at a time, on a copy of the tree, and says which test notices.

`make mutations` writes docs/mutations.md and ends with 1 where something was broken and no test noticed. A few of them:
`python dev/mutations.py "truncate floor"` runs those whose name the pattern finds, and writes their lines anew.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
DOCUMENT = REPOSITORY / "docs" / "mutations.md"
ORDER = "tests/ingest/test_order.py"
SCENES = "tests/ingest/test_operations.py"
UPKEEP = "tests/ingest/test_upkeep.py"
BAD = "tests/ingest/test_bad_input.py"
MODEL = "tests/ingest/test_model.py"
HISTORY = "tests/ingest/test_history.py"
TORTURE = "tests/ingest/test_torture.py"
TRANSACTIONS = "tests/ingest/test_transactions.py"
SECURITY = "tests/ingest/test_security.py"
EXAMPLES = "tests/ingest/test_examples.py"
LOST = "tests/ingest/test_nothing_lost.py"
VALUES = "tests/ingest/test_values_kept.py"
KEYS = "tests/ingest/test_record_keys.py"
REGISTRY = "tests/ingest/test_registry.py"
FLAT = "tests/ingest/test_flat.py"
HABITS = "tests/macros/test_habits.py"
LATER_BATCHES = f"{ORDER}::test_late_and_repeated_events_of_later_batches_are_told_apart_and_counted"
MENDED = f"{MODEL}::test_a_delivery_that_once_differed"


def scene(*names: str) -> tuple[str, ...]:
    """Scenarios of tests/ingest/test_operations.py: only those that are asked for are played."""
    return tuple(f"{SCENES}::test_scenario[{name}]" for name in names)


@dataclass(frozen=True)
class Mutation:
    """One thing broken: a text that is in the file once, what stands there instead, and the tests to ask."""

    name: str
    file: str
    text: str
    instead: str
    tests: tuple[str, ...]


MUTATIONS = (
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
        "commits of PostgreSQL not looked at",
        "ingest/schema/connectors.py",
        'F.when(F.col("__op") == "r", read).otherwise(F.concat(commit, F.lit("."), own))',
        'F.when(F.col("__op") == "r", read).otherwise(F.concat(own, F.lit("."), own))',
        scene("the_commit_decides_between_interleaved_transactions"),
    ),
    Mutation(
        "late changes not judged",
        "ingest/landing/batch.py",
        "    if not batch.found.late or batch.state is None:\n",
        "    if True:\n",
        (LATER_BATCHES,),
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
        "origin of carried values forgotten",
        "ingest/changes/unavailable.py",
        'F.coalesce(carried[name], F.col("__position"))',
        'F.col("__position")',
        scene("a_value_that_comes_late_reaches_the_row_that_carried_an_older_one"),
    ),
    Mutation(
        "deletes do not make tombstones",
        "ingest/decode/decoded.py",
        '_is_deleted().cast("string").alias("__deleted")',
        'F.lit("false").alias("__deleted")',
        scene("a_deleted_and_inserted_row_does_not_inherit", "a_row_that_changes_partition_stays_one"),
    ),
    Mutation(
        "truncate floor ignored",
        "ingest/changes/late.py",
        "F.when(precedes_truncate(truncated, table),",
        "F.when(F.lit(False),",
        scene("a_truncate_empties_the_table_and_what_is_older_stays_gone"),
    ),
    Mutation(
        "a truncate leaves the rows of silver",
        "ingest/landing/batch.py",
        "if not batch.found.truncates or batch.state is None or not is_new:",
        "if True:",
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
        "bad events not written to the quarantine",
        "ingest/silver/quarantine.py",
        '    of(table.schema).write(spark, rows, "upsert")\n    return again\n',
        "    return again\n",
        (f"{BAD}::test_every_bad_line_is_quarantined_with_reason_place_and_bytes",),
    ),
    Mutation(
        "a replay settles nothing",
        "ingest/operations/replay.py",
        "    quarantine.settle(spark, table, kept)\n",
        "",
        (f"{UPKEEP}::test_a_replay_applies_what_can_be_applied_by_now_and_nothing_twice",),
    ),
    Mutation(
        "repeated events counted as superseded",
        "ingest/changes/latest.py",
        "F.lag(log_of()).over(newest_first) == log_of()",
        "F.lit(False)",
        (ORDER,),
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
        "of a tie the first delivered counts",
        "ingest/changes/late.py",
        'counts_again |= ties & after & ~whole_row(table).eqNullSafe(F.col("_lake_held_row"))',
        "pass",
        (TORTURE,),
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
        "if state is not None and not history.is_committed():",
        "if False:",
        (HISTORY,),
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
        "a key change does not look for the row it left",
        "ingest/landing/completion.py",
        "        for commit in gone.join(",
        "        for commit in gone.limit(0).join(",
        (MENDED,),
    ),
    Mutation(
        "records of another form are taken for those of the first ones",
        "ingest/decode/wire_format.py",
        "unlike = ~kind.isin(only, _TOMBSTONE)",
        "unlike = F.lit(False)",
        ("tests/ingest/test_registry.py::test_values_of_another_form_behind_the_first_ones_are_read_all_the_same",),
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
        "waiting events are dropped",
        "ingest/sources/files.py",
        "        partly = dict(waiting or {})\n",
        "        partly: dict[EventFile, int] = {}\n",
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
        "events of other keys are taken for the examples'",
        "ingest/decode/json_events.py",
        "is_written_so = has_keys & ends_at_first_brace(text)",
        "is_written_so = ends_at_first_brace(text)",
        (EXAMPLES,),
    ),
    Mutation(
        "a text that is cut need not be whole",
        "ingest/decode/flat_json.py",
        """is_whole = F.concat(*again, F.lit("}")) == F.col("value")""",
        "is_whole = F.lit(True)",
        (FLAT,),
    ),
    Mutation(
        "a text that is cut may hold what needs a parser",
        "ingest/decode/flat_json.py",
        "            is_clean &= ~F.concat_ws",
        "            is_clean |= ~F.concat_ws",
        (FLAT,),
    ),
    Mutation(
        "quotes within a cut text are taken as they come",
        "ingest/decode/flat_json.py",
        """rlike(f"^{member.kind}$")""",
        """rlike(".")""",
        (FLAT,),
    ),
    Mutation(
        "whole numbers of a cut text are taken as they come",
        "ingest/decode/flat_json.py",
        """return text.cast("bigint").cast("string")""",
        "return text",
        (FLAT,),
    ),
    Mutation(
        "fractions of a cut text are taken as they come",
        "ingest/decode/flat_json.py",
        """F.when(F.abs(number) < float("inf"), number.cast("string"))""",
        "text",
        (FLAT,),
    ),
    Mutation(
        "placeholders of later events are taken for values",
        "ingest/decode/json_events.py",
        "return is_written_so & ~has_placeholder(text, table)",
        "return is_written_so",
        (EXAMPLES,),
    ),
    Mutation(
        "misread events are quarantined",
        "ingest/landing/batch.py",
        "    if batch.found.misread:\n",
        "    if False:\n",
        (EXAMPLES,),
    ),
    Mutation(
        "erased keys come back",
        "ingest/silver/erased_keys.py",
        "    if not salts:\n",
        "    if True:\n",
        (f"{SECURITY}::test_an_erased_key_is_in_no_file_and_no_older_event_brings_it_back",),
    ),
    Mutation(
        "nothing is compacted beside the batches",
        "ingest/landing/continuous.py",
        "self._asked[silver.table.name] = self._pool.submit(self._keep_up, silver, is_behind)",
        "pass",
        (f"{UPKEEP}::test_a_table_is_compacted_beside_its_batches",),
    ),
    Mutation(
        "a folder is one portion, however large",
        "ingest/sources/files.py",
        "if size <= self.batch_bytes}",
        "if size}",
        (f"{UPKEEP}::test_a_folder_is_landed_in_portions_and_the_table_made_for_all_of_it",),
    ),
    Mutation(
        "a new table is made for its first portion",
        "ingest/landing/batch.py",
        "round(found.keys / share)",
        "found.keys",
        (f"{UPKEEP}::test_a_folder_is_landed_in_portions_and_the_table_made_for_all_of_it",),
    ),
    Mutation(
        "a text that breaks off within its payload is taken for a null payload",
        "ingest/decode/json_forms.py",
        """:') & is_one, F.lit(False))""",
        """:'), F.lit(False))""",
        (f"{LOST}::test_json_with_its_schema_that_breaks_off_anywhere_is_quarantined",),
    ),
    Mutation(
        "a tombstone is neither an envelope nor an unwrapped event",
        "ingest/decode/json_events.py",
        'bodies.withColumn("_lake_is_envelope", is_envelope(F.col("_lake_json")))',
        'bodies.withColumn("_lake_is_envelope", F.when(F.col("_lake_json") != "", is_envelope(F.col("_lake_json"))))',
        (f"{LOST}::test_tombstones_of_an_envelope_topic_are_counted",),
    ),
    Mutation(
        "a place leaves out the partition",
        "ingest/changes/latest.py",
        'F.lit("")) for name in ORIGIN)',
        'F.lit("")) for name in ORIGIN[1:])',
        (f"{LOST}::test_bad_records_at_one_offset_of_two_partitions_are_two",),
    ),
    Mutation(
        "no rebase mode is set",
        "profiles/profiles.yml",
        "spark.sql.parquet.datetimeRebaseModeInWrite: CORRECTED",
        "spark.sql.parquet.datetimeRebaseModeInWrite: EXCEPTION",
        (f"{VALUES}::test_old_dates_and_timestamps_are_landed_everywhere",),
    ),
    Mutation(
        "decimals of more than 38 digits are left to Spark",
        "ingest/decode/avro_schema.py",
        "_SPARKS_DIGITS = 38",
        "_SPARKS_DIGITS = 3800",
        (f"{VALUES}::test_avro_decimals_of_more_than_38_digits_are_read",),
    ),
    Mutation(
        "the schema of a JSON event is ignored",
        "ingest/schema/connect.py",
        "        written = json.loads(text)\n",
        "        return None\n",
        (f"{VALUES}::test_the_schema_of_a_json_event_is_believed",),
    ),
    Mutation(
        "the record's key is ignored",
        "ingest/decode/decoded.py",
        "        if name in key_fields:\n",
        "        if False:\n",
        (f"{KEYS}::test_a_delete_is_of_its_records_key",),
    ),
    Mutation(
        "bytes that are no UTF-8 are taken for a text",
        "ingest/decode/json_forms.py",
        'return F.decode(text.cast("binary"), "UTF-8") == text',
        "return F.lit(True)",
        (f"{LOST}::test_a_text_that_is_not_utf8_is_quarantined_with_its_bytes",),
    ),
    Mutation(
        "tombstones that nothing explains are ignored",
        "ingest/landing/batch.py",
        "    if tombstones and not (",
        "    if False and not (",
        (f"{KEYS}::test_bare_tombstones_are_what_the_declaration_says",),
    ),
    Mutation(
        "a row that comes again after a bare tombstone is a duplicate",
        "ingest/changes/late.py",
        'counts_again |= F.col("_lake_held_unplaced") & F.col("_lake_held_deleted") & after & ~F.col("_lake_unplaced")',
        "pass",
        (f"{KEYS}::test_bare_tombstones_are_what_the_declaration_says",),
    ),
    Mutation(
        "a tombstone without a key is ignored",
        "ingest/decode/decoded.py",
        '(F.col("_lake_key").isNotNull() | is_record())',
        'F.col("_lake_key").isNotNull()',
        (f"{KEYS}::test_a_tombstone_whose_record_lost_its_key_is_quarantined",),
    ),
    Mutation(
        "a tombstone lacks the values that an update lacks",
        "ingest/decode/json_events.py",
        " & ~row.has(name) & ~tombstone",
        " & ~row.has(name)",
        (f"{KEYS}::test_a_bare_tombstone_lacks_no_values_where_an_update_does",),
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
        "what waits in the quarantine is younger with each run",
        "ingest/silver/quarantine.py",
        'F.coalesce(since, "quarantined_at")',
        'F.col("quarantined_at")',
        (f"{KEYS}::test_what_waits_in_the_quarantine_is_counted_once_though_a_run_is_killed",),
    ),
    Mutation(
        "a truncate makes one row of a table without a key",
        "ingest/changes/truncates.py",
        '**({"__position": F.lit(truncated)} if table.key else {}),',
        '"__position": F.lit(truncated),',
        (f"{LOST}::test_a_truncate_empties_a_table_without_a_key",),
    ),
    Mutation(
        "a tombstone keeps nothing of its batch",
        "ingest/landing/batch.py",
        "    if found.removed:\n",
        "    if False:\n",
        (f"{LOST}::test_a_changed_key_brings_values_that_only_its_first_batch_had",),
    ),
    Mutation(
        "changes that tie are one change",
        "ingest/changes/latest.py",
        "        is_same &= F.lag(row).over(newest_first).eqNullSafe(row)\n",
        "        pass\n",
        (f"{VALUES}::test_debeziums_own_fields_order_changes_and_ties_are_counted",),
    ),
    Mutation(
        "global ids are asked for as content ids",
        "ingest/decode/registry.py",
        '_Apicurio if connection.id_option == "globalId" else _Confluent',
        "_Confluent",
        (f"{REGISTRY}::test_ids_of_eight_bytes_are_global_ids_whatever_has_that_number_as_its_content_id",),
    ),
    # Increments: each of these had let a table differ from its model's select.
    Mutation(
        "a commit is trusted that had not seen the one before it",
        "macros/adapter/hudi_state.sql",
        "told.get('stands_on') != instants[1]",
        "false",
        (f"{HABITS}::test_a_commit_that_had_not_seen_the_one_before_it_is_not_trusted",),
    ),
    Mutation(
        "what another run is making is dropped",
        "macros/adapter/hudi_present.sql",
        "age > 86400",
        "age > -3600",
        (f"{HABITS}::test_a_run_leaves_what_another_one_has_made",),
    ),
    Mutation(
        "other settings are not looked at",
        "macros/increment/upstream_changes.sql",
        "before.settings != now.settings",
        "false",
        (f"{HABITS}::test_a_mended_entry_mends_the_mart",),
    ),
    Mutation(
        "tables that are read by their names are not followed",
        "macros/increment/upstreams.sql",
        "_versions(named, told.tables, before)",
        "_versions([], told.tables, before)",
        (f"{HABITS}::test_tables_that_are_read_by_their_names_are_followed",),
    ),
    Mutation(
        "chance is known by the names of functions",
        "macros/increment/upstreams.sql",
        " or not _is_deterministic(sql)",
        "",
        (f"{HABITS}::test_what_is_left_to_chance_is_computed_in_each_run",),
    ),
    Mutation(
        "a group whose key is null is left out",
        "macros/hudi/hudi_merge.sql",
        "{%- do hudi_require_no_nulls(wanted, affected, key) -%}",
        "",
        (f"{HABITS}::test_a_group_whose_key_becomes_null_is_not_left_out",),
    ),
    Mutation(
        "keys that rows share are written",
        "macros/hudi/hudi_merge.sql",
        "count_if(rows_of_key > 1 and",
        "count_if(rows_of_key > 9 and",
        (f"{HABITS}::test_keys_that_are_null_or_shared_are_refused",),
    ),
    Mutation(
        "--empty empties views",
        "macros/hudi/materialization_view.sql",
        "{%- if hudi_stays(this, existing) -%}",
        "{%- if false -%}",
        ("tests/macros/test_parts.py::test_what_is_there_stays_where_a_run_reads_no_rows_or_some",),
    ),
)


def _copy(to: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        source = REPOSITORY / name
        if source.is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            # profiles.yml is a link; what it points to stands beside connections.yml.
            shutil.copy2(source, to / name, follow_symlinks=False)


def _noticed_by(mutation: Mutation, tree: Path) -> str:
    """The first test that fails, or ''."""
    file = tree / mutation.file
    text = file.read_text(encoding="utf-8")
    found = text.count(mutation.text)
    if found != 1:
        raise SystemExit(f"mutation '{mutation.name}': its text is {found} times in {mutation.file}, expected once")
    file.write_text(text.replace(mutation.text, mutation.instead), encoding="utf-8")
    return _first_failure(tree, mutation.tests)


def _first_failure(tree: Path, tests: tuple[str, ...]) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not long", "-p", "no:cacheprovider", *tests],
        cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if ran.returncode == 0:
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) \S*?(test_\w+\.py(?:::.+?)?)(?: - |$)", ran.stdout, re.MULTILINE)
    if ran.returncode != 1 or failed is None:
        raise SystemExit(f"pytest could not run {' '.join(tests)}\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    return failed[1]


def main(wanted: str = "") -> int:
    """Runs the mutations whose name the pattern finds; the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        _copy(Path(folder))
        if failed := _first_failure(Path(folder), (ORDER,)):
            raise SystemExit(f"{failed} fails where nothing is broken: what follows would say nothing")
    noticed = written()
    for mutation in MUTATIONS:
        if not re.search(wanted, mutation.name):
            continue
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            _copy(Path(folder))
            noticed[mutation.name] = _noticed_by(mutation, Path(folder))
        told = noticed[mutation.name] or "NOT NOTICED"
        print(f"{mutation.name}: {told} ({time.monotonic() - started:.0f} s)", flush=True)
    rows = [(mutation, noticed[mutation.name]) for mutation in MUTATIONS if mutation.name in noticed]
    table = "\n".join(
        f"| {mutation.name} | `{mutation.file}` | {f'`{test}`' if test else '**none**'} |" for mutation, test in rows
    )
    DOCUMENT.write_text(
        "# What the tests notice\n\n`make mutations` breaks ingest and increments in one place at a time, on a copy, "
        "and writes this table: of the\ntests that it names for a breakage, the first one that failed.\n\n"
        f"| what was broken | where | the first test that failed |\n| --- | --- | --- |\n{table}\n",
        encoding="utf-8",
    )
    return 0 if all(test for mutation, test in rows if re.search(wanted, mutation.name)) else 1


def written() -> dict[str, str]:
    """What the document says so far: the test that noticed each breakage, or ''."""
    text = DOCUMENT.read_text(encoding="utf-8") if DOCUMENT.is_file() else ""
    lines = re.findall(r"^\| (.+?) \| `[^`]+` \| (?:`(.+)`|\*\*none\*\*) \|$", text, re.MULTILINE)
    return dict(lines)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
