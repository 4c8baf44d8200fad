"""Read a store as tables of Arrow columns, by DuckDB on one machine or by Spark on many."""
