"""The tables of a store as Arrow columns. No query engine is imported here."""
