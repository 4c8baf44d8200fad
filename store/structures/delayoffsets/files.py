"""config/delayOffset.json: the next queue offset to deliver of each delay level.

Source: ScheduleMessageService.encode, load (4.9.8, 5.3.3).
"""

from __future__ import annotations

from store.files.filesystem import Filesystem
from store.formats.java import parse_long
from store.layout import StoreLayout
from store.structures.tables.config_file import read_config_file, write_config_file
from store.structures.tables.data_version import DataVersion
from store.structures.tables.fastjson import Json, members, write_fastjson

FILE_NAME = "delayOffset.json"


def read_delay_offsets(layout: StoreLayout, fs: Filesystem) -> dict[int, int]:
    """Return the offset of each level that a broker would load from config/delayOffset.json."""
    table = members(read_config_file(layout.config, FILE_NAME, fs).document.get("offsetTable"))
    levels = ((parse_long(str(level)), offset) for level, offset in table.items())
    return {level: offset for level, offset in levels if level is not None and level >= 0 and isinstance(offset, int)}


def encode_delay_offsets(offsets: dict[int, int], version: DataVersion | None) -> bytes:
    """Return the file's bytes, as Fastjson writes them; `version` is for 5.x."""
    table: dict[int, Json] = {level: offsets[level] for level in sorted(offsets)}
    document: dict[str, Json] = {"offsetTable": table}
    if version is not None:
        document = {"dataVersion": version.to_json(), **document}
    return write_fastjson(document).encode()


def write_delay_offsets(
    layout: StoreLayout, fs: Filesystem, offsets: dict[int, int], version: DataVersion | None
) -> None:
    """Write the file; `version` is for 5.x. A crash leaves the old file or the new one."""
    write_config_file(layout.config, FILE_NAME, encode_delay_offsets(offsets, version), fs)
