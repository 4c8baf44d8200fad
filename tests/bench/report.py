"""What a benchmark finds, as values; one renderer for the terminal, the same values as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_HEADINGS = ("operation", "measured", "limit", "ratio", "target", "met")
_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True, slots=True)
class Row:
    """One operation.

    value, unit    the rate, in "B/s" or "records/s" and the like, or a time in "s", or a size in "B"
    limit          what the machine gives, in the same unit, measured in the same run; None where nothing bounds it
    target         the wanted figure in the same unit: at least for rates, at most for times and sizes; None without
    note           what else there is to say
    """

    operation: str
    value: float
    unit: str
    limit_name: str = ""
    limit: float | None = None
    target: float | None = None
    target_ratio: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return self.value / self.limit if self.limit else None

    @property
    def met(self) -> bool | None:
        """None where there is no target."""
        if self.target_ratio is not None:
            return self.ratio is not None and self.ratio >= self.target_ratio
        if self.target is None:
            return None
        return self.value <= self.target if self.unit in ("s", "B") else self.value >= self.target

    def as_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "ratio": self.ratio, "met": self.met}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Row:
        """The row that `as_json` gave."""
        return cls(**{field.name: fields[field.name] for field in dataclasses.fields(cls)})

    def cells(self) -> tuple[str, ...]:
        limit = f"{show(self.limit, self.unit)} {self.limit_name}" if self.limit else ""
        ratio = f"{self.ratio:.2f}" if self.ratio is not None else ""
        met = {None: "", True: "met", False: "NOT MET"}[self.met]
        return self.operation, show(self.value, self.unit), limit, ratio, self._target(), met

    def _target(self) -> str:
        if self.target_ratio is not None:
            return f"ratio >= {self.target_ratio:g}"
        if self.target is None:
            return ""
        sign = "<" if self.unit in ("s", "B") else ">="
        return f"{sign} {show(self.target, self.unit)}"


def show(value: float, unit: str) -> str:
    """A number as people read it: 1.25 GB/s, 310 MiB, 0.350 s, 812 us."""
    if unit == "B":
        return f"{value / (1 << 20):.0f} MiB"
    if unit == "s":
        return f"{value * 1e6:.0f} us" if value < 1e-3 else f"{value * 1e3:.2f} ms" if value < 0.1 else f"{value:.3f} s"
    for factor, prefix in _PREFIXES:
        if value >= factor:
            return f"{value / factor:.3g} {prefix}{unit}" if unit == "B/s" else f"{value / factor:.3g} {prefix} {unit}"
    return f"{value:.3g} {unit}"


def table(rows: Sequence[Row]) -> str:
    """Columns of plain text, each note on a line of its own below its row."""
    cells = [_HEADINGS, *(row.cells() for row in rows)]
    widths = [max(len(one[column]) for one in cells) for column in range(len(_HEADINGS))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(one, widths, strict=True)).rstrip() for one in cells]
    for number in range(len(rows), 0, -1):
        if rows[number - 1].note:
            lines.insert(number + 1, f"    {rows[number - 1].note}")
    return "\n".join(lines)
