"""The tables of a store as Arrow columns. No query engine is imported here."""

from __future__ import annotations

from store.public_names import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __spec__)
