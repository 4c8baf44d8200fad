"""ConsumeQueueExt: a filter's bit map and the store time; queue units have no room for them.

    | size | tags code | store time | bit map size | bit map |      the unit; size = 20 + bit map
    | -1   | …                                                      end of a file: the next unit and 4 bytes don't fit

In such a queue the tags code of a queue unit is the extension unit's address plus Long.MIN_VALUE. Only stores with
enableConsumeQueueExt have these files.

Source: ConsumeQueueExt (4.9.8).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from store.files.mapped_file import MappedFile
from store.files.mapped_file_queue import MappedFileQueue
from store.formats.queue_unit import (
    EXT_END,
    EXT_END_MARK,
    EXT_END_SIZE,
    EXT_UNIT,
    EXT_UNIT_MIN_SIZE,
    ExtUnit,
    decode_ext_address,
    decode_ext_unit,
    encode_ext_address,
    is_ext_address,
)
from store.formats.run import Int64Array
from store.formats.sets import distinct

EXT_DTYPE = np.dtype([("size", ">i2"), ("tags_code", ">i8"), ("store_timestamp_ms", ">i8"), ("bit_map_size", ">i2")])
assert EXT_DTYPE.itemsize == EXT_UNIT.size == EXT_UNIT_MIN_SIZE


class ConsumeQueueExt:
    """The extension files of one queue."""

    def __init__(self, files: MappedFileQueue) -> None:
        self.files = files

    def put(self, unit: ExtUnit) -> int | None:
        """Append a unit; return its address as a tags code, None if the bit map is too large."""
        if unit.size > min(0x7FFF, self.files.file_size - EXT_END_SIZE):
            return None
        while True:
            file = self.files.last_file()
            if unit.size + EXT_END_SIZE <= file.size - file.wrote:
                return encode_ext_address(file.file_start + file.append(unit.encode()))
            _end_file(file)

    def put_with_bit_maps(
        self, tags_codes: Int64Array, store_timestamps_ms: Int64Array, bit_maps: Sequence[bytes]
    ) -> Int64Array:
        """Append a unit with bit map for each tags code; return the addresses as tags codes."""
        addresses = tags_codes.copy()
        for row, bit_map in enumerate(bit_maps):
            address = self.put(ExtUnit(int(tags_codes[row]), int(store_timestamps_ms[row]), bit_map))
            addresses[row] = tags_codes[row] if address is None else address
        return addresses

    def put_run(self, tags_codes: Int64Array, store_timestamps_ms: Int64Array) -> Int64Array:
        """Append a unit without bit map for each tags code; return the addresses as tags codes."""
        units = np.zeros(len(tags_codes), EXT_DTYPE)
        units["size"] = EXT_UNIT_MIN_SIZE
        units["tags_code"], units["store_timestamp_ms"] = tags_codes, store_timestamps_ms
        addresses = np.empty(len(units), np.int64)
        done = 0
        while done < len(units):
            file = self.files.last_file()
            count = min(len(units) - done, (file.size - file.wrote - EXT_END_SIZE) // EXT_UNIT_MIN_SIZE)
            if count > 0:
                first = encode_ext_address(file.file_start + file.append(units[done : done + count].tobytes()))
                addresses[done : done + count] = first + EXT_UNIT_MIN_SIZE * np.arange(count)
                done += count
            else:
                _end_file(file)
        return addresses

    def read(self, position: int) -> ExtUnit | None:
        """Return the unit at a position in the extension files, None if there is none."""
        file = self.files.find_by_offset(position)
        if file is None:
            return None
        return decode_ext_unit(file.buffer[: file.readable_position], position - file.file_start)

    def units(self) -> Iterator[tuple[int, ExtUnit]]:
        """Yield the position and the contents of every unit, in order."""
        for file in self.files.files:
            position = 0
            while (unit := decode_ext_unit(file.buffer[: file.readable_position], position)) is not None:
                yield file.file_start + position, unit
                position += unit.size

    def recover(self) -> None:
        """Find the end: unit by unit from the first file on."""
        end = 0
        for file in self.files.files:
            position = 0
            while (unit := decode_ext_unit(file.buffer, position)) is not None:
                position += unit.size
            end = file.file_start + position
            if not _is_ended(file.buffer, position):
                break
        self.files.flushed_where = self.files.committed_where = end
        self.files.truncate_dirty_files(end)

    def begin_anew(self) -> None:
        """Reuse a lost queue's extension files and overwrite their units: no queue unit refers to them."""
        self.files.load()
        self.files.truncate_dirty_files(0)

    def truncate_by_max_address(self, tags_code: int) -> None:
        """Truncate after the unit at this address; do nothing for a tags code that is no address."""
        if not is_ext_address(tags_code):
            return
        position = decode_ext_address(tags_code)
        unit = self.read(position)
        if unit is not None:
            self.files.truncate_dirty_files(position + unit.size)

    def truncate_by_min_address(self, tags_code: int) -> None:
        """Delete the files that end before this address."""
        position = decode_ext_address(tags_code)
        gone = [file for file in self.files.files if file.file_start + file.size < position]
        self.files.delete_files(gone)


def _end_file(file: MappedFile) -> None:
    """Write the end mark, so that the next unit goes into the next file."""
    if file.size - file.wrote >= EXT_END.size:
        file.reserve(file.wrote + EXT_END.size)
        file.write_buffer[file.wrote : file.wrote + EXT_END.size] = EXT_END.pack(EXT_END_MARK)
    file.set_positions(file.size)


def _is_ended(buffer: memoryview, position: int) -> bool:
    """Return whether the file ends here, by its end mark or for lack of room; the next file continues."""
    if len(buffer) - position < EXT_END.size:
        return True
    return bool(EXT_END.unpack_from(buffer, position)[0] == EXT_END_MARK)


def lacks_extension(ext: ConsumeQueueExt | None, named_by_files: Iterable[Int64Array]) -> bool:
    """Return whether a position in `named_by_files` has no unit in the extension files."""
    held = {file.file_start for file in ext.files.files} if ext is not None else set[int]()
    for named in named_by_files:
        if ext is None or not len(named):
            if len(named):
                return True
            continue
        if not held.issuperset(distinct(named - named % ext.files.file_size).tolist()):
            return True
        if any(ext.read(int(position)) is None for position in (named[0], named[-1])):
            return True
    return False
