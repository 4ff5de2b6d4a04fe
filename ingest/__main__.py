"""`python -m ingest` is `lake`."""

from ingest.cli.app import app

app()
