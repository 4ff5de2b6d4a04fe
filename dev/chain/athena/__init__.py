"""A local Athena: a server that speaks its API, translates its DDL, and runs the SQL on Trino.

What it cannot show of Amazon's is in docs/reference/local-athena.md.
"""
