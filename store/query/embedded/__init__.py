"""The tables of stores for DuckDB in this process. The only package that imports duckdb."""

from __future__ import annotations

from store.public_names import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __spec__)
