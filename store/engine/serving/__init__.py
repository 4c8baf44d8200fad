"""A store that serves other processes: its control socket, the socket's client, and its metrics."""

from __future__ import annotations

from store.public_names import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __spec__)
