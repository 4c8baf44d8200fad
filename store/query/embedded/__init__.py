"""The tables of stores as DuckDB sees them, in this process. The only importer of duckdb."""

from __future__ import annotations

from store.public_names import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __spec__)
