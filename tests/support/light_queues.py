"""A store with light message queues, and the readers of one."""

from __future__ import annotations

from pathlib import Path

from store import Message, open_store
from store.formats.properties import INNER_MULTI_DISPATCH
from tests.support.salvaging import SEGMENT
from tests.support.stores import SMALL

LIGHT = {**SMALL, "enableLmq": True, "enableMultiDispatch": True}
COUNT = 30


Offsets = dict[str, list[tuple[int, str]]]


def names_of(number: int) -> str:
    """Every message is in light queue b, every third one in a too."""
    return "%LMQ%b" if number % 3 else "%LMQ%a,%LMQ%b"


def light(number: int, names: str, size: int = 40) -> Message:
    return Message.of("T", bytes(size), properties={INNER_MULTI_DISPATCH: names, "UNIQ_KEY": f"U{number:031d}"})


def make(root: Path, line: str = "5.3", count: int = COUNT, size: int = 40) -> list[tuple[int, int]]:
    """Make a store, and return log offset and size of each message."""
    with open_store(root, settings=LIGHT, read_only=False, compat=line) as store:
        results = [store.put(light(number, names_of(number), size)) for number in range(count)]
    return [(one.log_offset, one.size) for one in results]


def zero(root: Path, records: list[tuple[int, int]]) -> None:
    for at, size in records:
        with (root / "commitlog" / f"{at // SEGMENT * SEGMENT:020d}").open("r+b") as file:
            file.seek(at % SEGMENT)
            file.write(bytes(size))


def read(root: Path) -> Offsets:
    """Return the offset and key of every message of T and the light queues, as a consumer reads them."""
    with open_store(root) as store:
        return {
            topic: [
                (offset, one.uniq_key)
                for offset, one in enumerate(store.messages(topic, 0), store.min_offset(topic, 0))
                if one.uniq_key is not None
            ]
            for topic in ("T", "%LMQ%a", "%LMQ%b")
        }
