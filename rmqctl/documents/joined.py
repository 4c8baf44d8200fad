"""A row with the names of several types."""

from __future__ import annotations

from typing import Generic, TypeVarTuple

Types = TypeVarTuple("Types")


class Joined(Generic[*Types]):
    """A row with the names of each of these types; for a name in several, the last type counts."""
