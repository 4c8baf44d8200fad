"""The structures on a broker's disk, one room each; a 5.x room is imported only if its files exist."""

from __future__ import annotations

from store.public_names import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __spec__)
