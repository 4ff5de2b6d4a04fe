"""`python -m ingest` is `lake`."""

from ingest.cli import app

app()
