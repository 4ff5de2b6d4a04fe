"""How an example system's events are made: rows, transactions, Debezium's forms, deliveries, files."""
