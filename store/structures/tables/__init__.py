"""The broker's tables under config/: reading as in a broker, and a review against the store."""

from __future__ import annotations

from store.public_names import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __spec__)
