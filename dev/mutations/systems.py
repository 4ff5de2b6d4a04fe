"""What is broken of single systems: DynamoDB's view types and order, the shards of Kinesis, JSON of an outbox."""

from __future__ import annotations

from dev.mutations.base import DYNAMODB, KINESIS, SCHEMA_FILES, Mutation, scene

_EXPIRED = f"{KINESIS}::test_what_may_have_expired_is_an_error_and_what_is_there_is_not"

SYSTEMS = (
    Mutation(
        "columns that no record of a view type says may be declared",
        "ingest/config/checks.py",
        "if others and view not in SAYS_ROWS:",
        "if others and not view:",
        (f"{DYNAMODB}::test_a_table_of_which_the_stream_cannot_know_everything_is_refused",),
    ),
    Mutation(
        "deletes may be ordered by what their view type lacks",
        "ingest/config/checks.py",
        "if ordering and view not in SAYS_DELETED_ROWS:",
        "if ordering and not view:",
        (f"{DYNAMODB}::test_a_table_of_which_the_stream_cannot_know_everything_is_refused",),
    ),
    Mutation(
        "a delete without its declared image is applied",
        "ingest/decode/dynamodb.py",
        "    if declared in SAYS_DELETED_ROWS:\n",
        "    if False:\n",
        (f"{DYNAMODB}::test_a_record_without_an_image_that_its_declared_view_type_has_is_quarantined",),
    ),
    Mutation(
        "a stray image is believed where the view type has none",
        "ingest/decode/dynamodb.py",
        "in SAYS_ROWS\n    return",
        "in SAYS_ROWS or True\n    return",
        (f"{DYNAMODB}::test_each_view_type_says_what_it_can",),
    ),
    Mutation(
        "sequence numbers are ordered as texts",
        "ingest/schema/connectors.py",
        'return F.lpad(column, 40, "0")',
        "return column",
        scene("sequence_numbers_of_forty_digits_order_a_stream"),
    ),
    Mutation(
        "records of Kinesis are asked for the sequence numbers of DynamoDB",
        "ingest/schema/connectors.py",
        "names = table.options.order_by or renumbered",
        "names = table.options.order_by",
        (f"{KINESIS}::test_records_of_dynamodb_are_ordered_by_their_time_unless_declared_otherwise",),
    ),
    Mutation(
        "children of a shard are read before it has ended",
        "ingest/sources/kinesis_reader.py",
        "if not reading.is_done and not open_.intersection(reading.shard.parents)",
        "if not reading.is_done",
        (f"{KINESIS}::test_what_is_unread_of_a_backlog_is_known_by_its_time",),
    ),
    Mutation(
        "records that have expired are passed over",
        "ingest/sources/kinesis_reader.py",
        "elif position.has_ended or position.after is None or not is_there(name, position.after):",
        "elif position.has_ended or position.after is None:",
        (_EXPIRED,),
    ),
    Mutation(
        "a shard that is gone counts as read",
        "ingest/sources/kinesis_reader.py",
        "            if name not in listed and not position.has_ended:\n",
        "            if name not in listed:\n                continue\n            if False:\n",
        (_EXPIRED,),
    ),
    Mutation(
        "a stream of the same name is the same stream",
        "ingest/sources/kinesis_reader.py",
        "if self.created_ms is not None and self.created_ms != stream.created_ms:",
        "if False:",
        (_EXPIRED,),
    ),
    Mutation(
        "the schema file of an outbox says nothing of JSON",
        "ingest/config/sources_file.py",
        "    if columns and whole and whole.schema_file:\n",
        "    if False:\n",
        (f"{SCHEMA_FILES}::test_a_column_means_what_the_file_says_unless_it_says_so_itself",),
    ),
)
