"""Colours of results on a terminal: of a cell by its word, of a verdict by its losses and findings."""

from __future__ import annotations

from rmqctl.result import Result

_GREEN_WORDS = (
    "FOUND", "PUT_OK", "ok", "keep", "sound", "certain", "intact", "delivered", "committed", "parses",
)  # fmt: skip
_RED_WORDS = (
    "remove", "cut", "delete", "bad", "lost", "damaged", "damage", "missing", "blocked", "below-min", "body-crc",
    "inconsistent",
)  # fmt: skip
_YELLOW_WORDS = (
    "write", "patch", "partial", "doubtful", "assumed", "duplicate", "in-doubt", "stale", "overwritten", "behind",
    "no-queue", "beyond-max",
)  # fmt: skip
_STYLES = {
    **dict.fromkeys(_GREEN_WORDS, "green"),
    **dict.fromkeys(_RED_WORDS, "red"),
    **dict.fromkeys(_YELLOW_WORDS, "yellow"),
}
_STYLES_IN = {
    ("starts", "yes"): "green",
    ("starts", "no"): "red",
    # Most brokers have neither.
    ("backup_state", "missing"): "",
    ("temporary_state", "missing"): "",
}
"""Of words that say something else in one column."""
_RANK_STYLES = {"1": "red", "2": "red", "3": "yellow"}
_COUNTS_IN_RED = ("lost_", "damaged_")
_RED, _YELLOW, _GREEN = 31, 33, 32
_WORST_RANK = 2
"""Up to this rank of doctor's findings messages are lost, or a broker does not start."""


def style_of(name: str, cell: str) -> str:
    """Return the colour of a cell in column `name`: by its word, its rank, or a count of losses."""
    if name == "rank":
        return _RANK_STYLES.get(cell, "")
    if name.startswith(_COUNTS_IN_RED):
        return "red" if cell[:1].isdigit() and cell.split()[0] != "0" else ""
    return _STYLES_IN.get((name, cell), _STYLES.get(cell, ""))


def tone(result: Result) -> int:
    """Return the colour of the verdict: red for losses, yellow for findings; the words say the same."""
    facts = result.read_facts()
    is_lost = any(facts.get(name) for name in ("lost_messages", "damaged_count", "deleted_unconsumed"))
    if is_lost or 0 < int(facts.get("worst_rank") or 0) <= _WORST_RANK:
        return _RED
    return _YELLOW if result.final_exit_code() else _GREEN
