from store.query.embedded.engine import Engine as Engine
from store.query.embedded.engine import open_engine as open_engine
from store.query.embedded.export import export_lines as export_lines
from store.query.embedded.export import read_records as read_records
from store.query.embedded.export import write_export as write_export
from store.query.embedded.row_where import RowWhere as RowWhere
