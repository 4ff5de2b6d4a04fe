"""The real chain on one machine: databases, Debezium on Kafka Connect, Kafka, a registry. See docs/operate/chain.md."""
