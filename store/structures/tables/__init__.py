"""Reads the broker's own tables under config/ as a broker would, and reviews them against the store."""

from __future__ import annotations

from store.public_names import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __spec__)
