"""The broker's services and their state in a store: delayed messages, transactions, filters."""

from __future__ import annotations

from store.public_names import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __spec__)
