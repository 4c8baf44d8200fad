"""The structures on a broker's disk, a room each; a room of 5.x is imported only where its files are."""

from __future__ import annotations

from store.public_names import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __spec__)
