"""Bytes to rows: Debezium's events, as JSON or Avro, enveloped or unwrapped, become rows of the declared columns."""
