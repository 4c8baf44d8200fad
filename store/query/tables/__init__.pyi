from store.query.tables.export import STDOUT as STDOUT
from store.query.tables.export import Export as Export
from store.query.tables.export import check_export as check_export
from store.query.tables.query_text import QUERIES as QUERIES
from store.query.tables.query_text import check_is_query as check_is_query
from store.query.tables.schema import TABLES as TABLES
from store.query.tables.usage import usage_query as usage_query
from store.query.tables.usage import usage_rows as usage_rows
