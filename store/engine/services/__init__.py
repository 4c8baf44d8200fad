"""Reads the state of the broker's services from a store: delayed messages and transactions."""

from __future__ import annotations

from store.public_names import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __spec__)
