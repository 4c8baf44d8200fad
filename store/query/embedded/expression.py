"""DuckDB's filter of a scan, a pyarrow expression, as a RowFilter.

Arrow selects the shares of a table that may have a wanted row. Each share becomes a fragment of a dataset, and its
partition expression states the known ranges of its values. Arrow returns the fragments that a filter leaves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pafs

from store.query.tables.row_filter import Ranges, Share
from store.structures.commitlog.message_batch import MessageRows

ROW = "row number"


class ExpressionFilter:
    """Keeps the rows that make the expression true.

    schema     all columns of the table
    constants  columns with one value in all rows
    """

    def __init__(self, expression: pc.Expression | None, schema: pa.Schema, constants: Mapping[str, str]) -> None:
        self.expression = expression
        self.constants = constants
        self._table = schema
        # Words inside constants count as names too: an extra column only costs time.
        words = set(re.findall(r"\w+", str(expression))) if expression is not None else set()
        self._named = pa.schema([field for field in schema if field.name in words])

    def mentions(self, column: str) -> bool:
        return column in self._named.names

    def choose(self, shares: Sequence[Share], ranges_of: Callable[[Share], Ranges]) -> Sequence[Share]:
        if self.expression is None or not shares:
            return shares
        places, files = ds.ParquetFileFormat(), pafs.LocalFileSystem()
        fragments = [
            places.make_fragment(str(number), files, partition_expression=self._known(ranges_of(share)))
            for number, share in enumerate(shares)
        ]
        left = ds.FileSystemDataset(fragments, self._table, places, files).get_fragments(filter=self.expression)
        return [shares[number] for number in sorted(int(fragment.path) for fragment in left)]

    def _known(self, ranges: Ranges) -> pc.Expression:
        """Return an expression that every row of a share satisfies."""
        known = [ds.field(name) == value for name, value in self.constants.items()]
        for name, (smallest, largest) in ranges.items():
            kind = self._table.field(name).type
            if smallest is not None and smallest == largest:
                known.append(ds.field(name) == pa.scalar(smallest, kind))
                continue
            if smallest is not None:
                known.append(ds.field(name) >= pa.scalar(smallest, kind))
            if largest is not None:
                known.append(ds.field(name) <= pa.scalar(largest, kind))
        return reduce(and_, known, ds.scalar(True))

    def select_messages(self, found: MessageRows) -> MessageRows:
        if self.expression is None:
            return found
        stored = pa.schema([field for field in self._named if field.name not in self.constants])
        rows = self._rows(found.batch(stored), found.count)
        return found if len(rows) == found.count else found.select(rows)

    def columns_for(self, schema: pa.Schema) -> pa.Schema:
        extra = [f for f in self._named if f.name not in schema.names and f.name not in self.constants]
        return pa.schema([*schema, *extra])

    def select(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        narrow = batch.select(schema.names)
        if self.expression is None:
            return narrow
        rows = self._rows(batch, batch.num_rows)
        return narrow if len(rows) == batch.num_rows else narrow.take(pa.array(rows))

    def _rows(self, batch: pa.RecordBatch, count: int) -> Any:
        """Return the numbers of the wanted rows, rising."""
        columns: dict[str, Any] = {name: pa.repeat(value, count) for name, value in self.constants.items()}
        columns |= dict(zip(batch.schema.names, batch.columns, strict=True))
        columns[ROW] = np.arange(count)
        return np.sort(pa.table(columns).filter(self.expression).column(ROW).to_numpy())
