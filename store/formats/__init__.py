"""Formats: the meaning of the bytes. Pure functions and values; nothing here opens a file."""

from __future__ import annotations

from store.public_names import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __spec__)
