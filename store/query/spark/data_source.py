"""`spark.read.format("rocketmq").load(STORE)`: a store's contents as tables.

Options
    table           messages (default), consumequeue, index, segments, anomalies; columns: query/tables/schema.py
    body            binary (default), or none: bodies are null and never read
    checkCrc        true: records with a bad body CRC are left out (they are in `anomalies`); default false
    from, to        only for messages: a log offset (digits), or a time (ISO 8601, or epoch ms with the suffix ms);
                    records at or after `from`, and before `to`
    partitionBytes  bytes of a segment per task, default 268435456
    partitions      parts per segment instead of partitionBytes

`.schema(…)` selects fewer columns, and only those are built. Filters that store.query.spark.filters can translate are
evaluated before a row is built, and exclude whole segments.
Records after damage are included if their log offset equals their position; a broker would not reach them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition

from store.files.store_reader import StoreReader
from store.query.spark.damage import noting
from store.query.spark.filters import understand
from store.query.spark.tasks import whole
from store.query.tables.request import Request
from store.query.tables.row_filter import Conditions
from store.query.tables.schema import TABLES, ddl

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class RocketMQDataSource(DataSource):
    """The data source `rocketmq`."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> str:
        return ddl(TABLES[Request.from_options(self.options).table])

    def reader(self, schema: StructType) -> TableReader:
        return TableReader(Request.from_options(self.options), schema)


class TablePartition(InputPartition):
    """One task's share of a table; `value` is the share from the plan."""


class TableReader(DataSourceReader):
    """Plans the partitions of a table and reads them; the work is in store.query.tables.shares."""

    def __init__(self, request: Request, schema: StructType) -> None:
        self.request = request
        self.schema = schema
        self.conditions = list(request.conditions)

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        for given in filters:
            condition = understand(given) if self.request.table == "messages" else None
            if condition is None:
                yield given
            else:
                self.conditions.append(condition)

    def partitions(self) -> list[InputPartition]:
        from store.query.tables.shares import plan

        files = StoreReader(self.request.address)
        files.check_is_store()
        return [TablePartition(share) for share in plan(files, self.request, Conditions(self.conditions))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:  # Spark asks for one partition where none was planned
            return iter(())
        from pyspark.sql.pandas.types import to_arrow_schema

        from store.query.tables.shares import read

        wanted = to_arrow_schema(self.schema, timezone="UTC")
        files = StoreReader(self.request.address)
        batches = read(files, self.request, Conditions(self.conditions), partition.value, wanted)
        return whole(noting(batches, files, self.request.damage_folder))
