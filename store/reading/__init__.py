"""Get: the messages of a queue, with the broker's limits and filters."""

from __future__ import annotations

from store.public_names import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __spec__)
