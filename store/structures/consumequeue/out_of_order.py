"""Messages of a queue with mismatched queue offsets."""

from __future__ import annotations

from dataclasses import dataclass, replace

from store.formats.wording import amount


@dataclass(frozen=True, slots=True)
class OutOfOrder:
    """Consecutive messages whose queue offsets differ from their units' positions.

    queue_offset, place  the first message's queue offset, and its unit's position
    has_unit             whether the messages have units: of two messages with one queue offset, the second has none

    A broker writes the units at the same positions ("logic queue order maybe wrong"), but none at a queue offset in
    use.
    """

    topic: str
    queue_id: int
    queue_offset: int
    place: int
    count: int = 1
    has_unit: bool = True

    def joined(self, other: OutOfOrder) -> OutOfOrder | None:
        """Return these messages with `other`, if `other` continues them in the same queue; else None."""
        place = self.place + self.count if self.has_unit else self.place
        behind = replace(self, queue_offset=self.queue_offset + self.count, place=place, count=other.count)
        return replace(self, count=self.count + other.count) if behind == other else None

    def describe(self) -> str:
        """Return the finding as a sentence for people."""
        name, last = f"{self.topic}, queue {self.queue_id}", self.queue_offset + self.count - 1
        came = f"came where {self.place} is next"
        if self.has_unit:
            shift, last_place = self.queue_offset - self.place, self.place + self.count - 1
            places = f"{self.place}" if self.count == 1 else f"{self.place} to {last_place}"
            came += f", with the entry at {places} as in a broker: consumers' offsets point "
            came += f"{amount(abs(shift), 'message')} too {'far' if shift > 0 else 'low'}"
        else:
            came += ", without an entry: others have these queue offsets; put them again"
        if self.count == 1:
            return f"{name}: the message with queue offset {self.queue_offset} {came}"
        return f"{name}: the messages with queue offsets {self.queue_offset} to {last} {came}"
