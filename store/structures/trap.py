"""Trap: a failure at a broker's start or after it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Trap:
    """A failure at a broker's start or after it. `subject` is its queue, family or count."""

    code: str
    detail: str
    subject: tuple[object, ...] = ()
