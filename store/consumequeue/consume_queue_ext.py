"""ConsumeQueueExt: what a queue unit has no room for, a filter's bit map and the store time, beside the queue.

    | size | tags code | store time | bit map size | bit map |      the unit; size = 20 + bit map
    | -1   | …                                                      end of a file: the next unit and 4 bytes don't fit

The queue unit's tags code then is this unit's address plus Long.MIN_VALUE. Only stores with enableConsumeQueueExt
have these files.

Source: ConsumeQueueExt (4.9.8).
"""

from __future__ import annotations

from store.disk.mapped_file_queue import MappedFileQueue
from store.formats.queue_unit import (
    EXT_END,
    EXT_END_MARK,
    EXT_END_SIZE,
    ExtUnit,
    decode_ext_address,
    decode_ext_unit,
    encode_ext_address,
    is_ext_address,
)


class ConsumeQueueExt:
    """The extension files of one queue."""

    def __init__(self, files: MappedFileQueue) -> None:
        self.files = files

    def put(self, unit: ExtUnit) -> int | None:
        """Appends a unit and gives its address as a queue unit's tags code; None for a bit map too large to store."""
        if unit.size > 0x7FFF:
            return None
        while True:
            file = self.files.last_file()
            if unit.size + EXT_END_SIZE <= file.size - file.wrote:
                return encode_ext_address(file.file_start + file.append(unit.encode()))
            if file.size - file.wrote >= EXT_END.size:
                file.write_buffer[file.wrote : file.wrote + EXT_END.size] = EXT_END.pack(EXT_END_MARK)
            file.set_positions(file.size)

    def read(self, position: int) -> ExtUnit | None:
        """The unit at a position in the extension files, None where none is."""
        file = self.files.find_by_offset(position)
        if file is None:
            return None
        return decode_ext_unit(file.buffer[: file.readable_position], position - file.file_start)

    def recover(self) -> None:
        """Finds the end: unit by unit from the first file on."""
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

    def truncate_by_max_address(self, tags_code: int) -> None:
        """Cuts off what lies behind the unit at this address; a tags code that is no address cuts nothing."""
        if not is_ext_address(tags_code):
            return
        position = decode_ext_address(tags_code)
        unit = self.read(position)
        if unit is not None:
            self.files.truncate_dirty_files(position + unit.size)

    def truncate_by_min_address(self, tags_code: int) -> None:
        """Deletes the files that end before this address."""
        position = decode_ext_address(tags_code)
        gone = [file for file in self.files.files if file.file_start + file.size < position]
        self.files.delete_files(gone)


def _is_ended(buffer: memoryview, position: int) -> bool:
    """Whether the end mark stands here, so that the next file goes on."""
    if len(buffer) - position < EXT_END.size:
        return True
    return bool(EXT_END.unpack_from(buffer, position)[0] == EXT_END_MARK)
