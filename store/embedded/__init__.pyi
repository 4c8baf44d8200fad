from store.embedded.engine import Engine as Engine
from store.embedded.engine import open_engine as open_engine
from store.embedded.export import export_lines as export_lines
from store.embedded.export import write_export as write_export
from store.embedded.row_where import RowWhere as RowWhere
