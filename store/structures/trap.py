"""Trap: a failure at a broker's start, or after it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Trap:
    """A failure at the start, or after it. `code` names it, `subject` is the queue that it is about."""

    code: str
    detail: str
    subject: tuple[object, ...] = ()
