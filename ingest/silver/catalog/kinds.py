"""Which catalogs know a table, by where it is."""

from __future__ import annotations

from ingest.config.lake import is_on_s3
from ingest.silver.catalog.base import Catalog
from ingest.silver.catalog.glue import GlueCatalog
from ingest.silver.catalog.hive import HiveCatalog
from ingest.silver.hudi import HudiTable


def catalog_of(hudi: HudiTable) -> Catalog:
    """The catalog of a table: that of the Spark session; of a table on S3, Glue's as well."""
    session = HiveCatalog(hudi.spark)
    return GlueCatalog(session) if is_on_s3(hudi.path) else session
