"""What is broken of dbt: materializations, increments, the adapter."""

from __future__ import annotations

from dev.mutations.base import HABITS, INCREMENTS, PARTS, Mutation

MACROS = (
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
        (f"{PARTS}::test_what_is_there_stays_where_a_run_reads_no_rows_or_some",),
    ),
    Mutation(
        "is_incremental() leaves no word of itself",
        "macros/adapter/is_incremental.sql",
        ".update(asks_is_incremental=true)",
        ".update(asks_is_incremental=false)",
        (f"{PARTS}::test_a_model_that_asks_is_incremental_keeps_its_rows",),
    ),
    Mutation(
        "a seed has changed whenever it is written",
        "macros/increment/table_version.sql",
        "{'rows': _rows_of(relation)}",
        "{'files': _files_of(relation)}",
        (f"{INCREMENTS}::test_a_seed_that_is_written_again_has_not_changed",),
    ),
    Mutation(
        "a row is not looked for where it was before",
        "macros/increment/upstream_changes.sql",
        "seen=[since.completed] + meanwhile",
        "seen=[]",
        (f"{INCREMENTS}::test_a_row_reaches_others_by_what_they_read_of_it",),
    ),
    Mutation(
        "a proof does not see rows that are missing",
        "macros/tests/equals_its_select.sql",
        "where rows_in_table <> rows_in_select or hash_difference <> 0",
        "where rows_in_table > rows_in_select",
        (f"{HABITS}::test_a_model_can_be_proven",),
    ),
    Mutation(
        "a merge on Athena by another key leaves rows of the one before",
        "macros/athena/athena_merge.sql",
        "when _present_count > 1 then",
        "when _present_count > 9 then",
        ("tests/athena/engine/test_merge.py::test_another_key_of_which_the_table_has_several_rows_is_refused",),
    ),
    Mutation(
        "a unit test's time with a T is a null on Athena",
        "macros/athena/types.sql",
        "if type.startswith('timestamp') else field",
        "if false else field",
        ("tests/athena/engine/test_merge.py::test_a_unit_test_s_time_may_have_a_t",),
    ),
    Mutation(
        "marts with a bucket index have bloom filters",
        "macros/hudi/options_clause.sql",
        "options.get('hoodie.index.type') == 'BUCKET'",
        "options.get('hoodie.index.type') == 'NONE'",
        ("tests/macros/test_materializations.py::test_rows_move_between_partitions_in_one_commit",),
    ),
    Mutation(
        "a batch leaves rows in partitions that it has left",
        "macros/hudi/hudi_increment.sql",
        "    {%- do _remove_from_other_partitions(target, batch, columns) -%}\n",
        "",
        ("tests/macros/test_batches.py",),
    ),
    Mutation(
        "a key of time has two texts",
        "macros/hudi/options_clause.sql",
        "options.update({hudi_option_of_times(): 'true'})",
        "options.update({hudi_option_of_times(): 'false'})",
        ("tests/macros/test_columns.py::test_a_key_may_be_a_timestamp",),
    ),
    Mutation(
        "a commit on S3 is completed before its request",
        "macros/adapter/hudi_commits.sql",
        "return([commit['commit_time'], commit['state_transition_time']] | max)",
        "return([commit['commit_time'], commit['state_transition_time']] | min)",
        ("tests/athena/test_increments.py",),
    ),
)
