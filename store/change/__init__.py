"""Changes to a store: planned, shown, applied in a crash-safe order, kept in quarantine, undone."""

from __future__ import annotations

from store.public_names import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __spec__)
