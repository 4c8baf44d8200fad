"""The tables and the rebuild on Spark. The only package that imports pyspark."""

from __future__ import annotations

from store.public_names import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __spec__)
