"""Forensics: verbs that read stores and never write to them.

State of a store, timeline, lag of the consumers, digests, differences between two stores, salvage.
"""

from __future__ import annotations

from store.public_names import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __spec__)
