"""One way to open a store: recognise the folder, load its files in the broker's order, show a view."""

from __future__ import annotations

from store.public_names import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __spec__)
