"""Read the structures of a 5.x broker; nothing here is imported for a 4.x store."""

from __future__ import annotations

from store.public_names import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __spec__)
