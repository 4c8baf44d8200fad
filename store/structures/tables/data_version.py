"""DataVersion: the version in each table of a 5.x broker under config/.

Source: DataVersion (5.3.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from store.files.filesystem import Filesystem
from store.structures.tables.config_file import read_config_file
from store.structures.tables.fastjson import Json, members


@dataclass(slots=True)
class DataVersion:
    """The version of one table."""

    counter: int = 0
    state_version: int = 0
    timestamp_ms: int = 0

    def move(self, now_ms: int) -> None:
        """Count one change (nextVersion)."""
        self.counter += 1
        self.timestamp_ms = now_ms

    def to_json(self) -> Json:
        """Return the object for the file."""
        document: dict[str, Json] = {"counter": self.counter, "stateVersion": self.state_version}
        return {**document, "timestamp": self.timestamp_ms}


def read_data_version(folder: Path, name: str, fs: Filesystem) -> DataVersion | None:
    """Return the data version in a table's file; None without one."""
    return parse_data_version(read_config_file(folder, name, fs).document.get("dataVersion"))


def parse_data_version(value: Json) -> DataVersion | None:
    """Return the data version in an object; None if a number is missing."""
    saved = members(value)
    numbers = [saved.get(name) for name in ("counter", "stateVersion", "timestamp")]
    if not all(isinstance(number, int) for number in numbers):
        return None
    return DataVersion(*(int(str(number)) for number in numbers))
