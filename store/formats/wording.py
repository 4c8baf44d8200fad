"""Counts with their nouns, for messages to people."""

from __future__ import annotations

_PLURALS = {"entry": "entries", "pass": "passes", "half": "halves", "copy": "copies"}


def amount(number: int, noun: str) -> str:
    """Return `1 message`, `1,234 messages`; the noun's last word gets the plural."""
    if number == 1:
        return f"1 {noun}"
    head, _, last = noun.rpartition(" ")
    return f"{number:,} {head}{' ' if head else ''}{_PLURALS.get(last, f'{last}s')}"


def amount_is(number: int, noun: str) -> str:
    """Return `1 message is`, `1,234 messages are`."""
    return f"{amount(number, noun)} {'is' if number == 1 else 'are'}"
