"""The tables of stores as DuckDB sees them, in this process. The only importer of duckdb."""
