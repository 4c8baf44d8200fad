"""Find damage in a store: compare the log with its queues, its index and its checkpoint. Reads only."""

from __future__ import annotations

from store.public_names import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __spec__)
