"""What dbt's documentation asks Glue for: databases that are there.

dbt-athena asks for the tables of each schema of the project, and fails at a database that nothing has been built in:
those of a source system that was never landed are such ones (docs/decisions/0043-what-was-never-landed-is-left-out.md).
"""

from __future__ import annotations

from typing import Any

from dbt.adapters.athena.impl import AthenaAdapter

_asked = AthenaAdapter._get_one_catalog


def asked_of_what_is_there(self: Any, information_schema: Any, schemas: set[str], used_schemas: Any) -> Any:
    """The catalog's entries of some schemas; of a database that is not there none."""
    there = {schema for schema in schemas if self.check_schema_exists(information_schema.database, schema)}
    return _asked(self, information_schema, there, used_schemas)
