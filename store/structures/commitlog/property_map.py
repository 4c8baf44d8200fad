"""Property strings of many records, parsed at once.

    name 0x01 value 0x02 name 0x01 value …

Steps:
  1. the strings lie one after another in one Arrow buffer; a part ends at each 0x02 and at each record's end
  2. a part's separator is its first 0x01; parts without a separator, a name or a value are ignored
     (MessageDecoder.string2messageProperties, 4.9.8)
  3. of equal names in one record the last one wins

The result is three parallel arrays (row, name, value); the map column and single properties are built from them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from store.structures.commitlog.gather import Ints, slices, text

NAME_END = 0x01
PART_END = 0x02
SPACE = 0x20


class PropertyTable:
    """The properties of `count` records as parallel arrays.

    `row` rises, `names` is a dictionary of bytes, `values` has bytes.
    """

    def __init__(self, strings: pa.Array) -> None:
        self.count = len(strings)
        self._strings = strings
        data, ends = _flat(strings)
        starts, stops, row = _parts(data, ends)
        split = _first_in(np.flatnonzero(data == NAME_END), starts, len(data))
        good = (split > starts) & (split + 1 < stops)
        starts, stops, split, row = starts[good], stops[good], split[good], row[good]
        names = slices(data, starts, split - starts).dictionary_encode()
        values = slices(data, split + 1, stops - split - 1)
        keep = _last_of_equals(row, names.indices.to_numpy(), len(names.dictionary))
        if keep is None:
            self.row, self.names, self.values = row, names, values
        else:
            self.row, self.names, self.values = (
                row[keep],
                names.take(pa.array(keep)),
                values.take(pa.array(keep)),
            )

    def column(self, name: bytes) -> pa.Array:
        """Return the property `name` of every record as bytes, null for records without it."""
        place = pc.index(self.names.dictionary, pa.scalar(name, pa.binary())).as_py()
        hits = np.flatnonzero(self.names.indices.to_numpy() == place)
        picks = np.full(self.count, -1, np.int64)
        picks[self.row[hits]] = hits
        return self.values.take(pa.array(picks, mask=picks < 0))

    def left_over(self) -> pa.Array:
        """Return the property string of each record if its map loses bytes of it, else null."""
        pair_sizes = pc.add(pc.binary_length(self.names.cast(pa.binary())), pc.binary_length(self.values)).to_numpy()
        # Each pair has two separators, except that none follows the last value.
        said = np.bincount(self.row, pair_sizes + 2, self.count) - (np.bincount(self.row, minlength=self.count) > 0)
        whole = said == pc.binary_length(self._strings).to_numpy()
        try:
            self._strings.cast(pa.string())
        except pa.ArrowInvalid:
            whole &= [is_utf8(text) for text in self._strings.to_pylist()]
        return pc.if_else(pa.array(whole), pa.scalar(None, pa.binary()), self._strings)

    def maps(self) -> pa.MapArray:
        """Return every record's properties as a map of text."""
        offsets = np.searchsorted(self.row, np.arange(self.count + 1)).astype(np.int32)
        names = self.names.dictionary
        decoded = pa.DictionaryArray.from_arrays(self.names.indices, text(names)).cast(pa.string())
        return pa.MapArray.from_arrays(pa.array(offsets), decoded, text(self.values))


def is_utf8(text: bytes) -> bool:
    """Return whether the bytes are UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def split_words(strings: pa.Array) -> pa.ListArray:
    """Return KEYS values as lists of keys; no value gives an empty list.

    Keys are separated by one space each; empty keys are skipped.
    """
    data, ends = _flat(strings.fill_null(b""))
    starts, stops, row = _parts(data, ends, separator=SPACE)
    good = stops > starts
    starts, stops, row = starts[good], stops[good], row[good]
    offsets = np.searchsorted(row, np.arange(len(strings) + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), text(slices(data, starts, stops - starts)))


def _flat(strings: pa.Array) -> tuple[np.ndarray, Ints]:
    """Return the strings' bytes one after another, and the end of each string."""
    offsets = np.frombuffer(strings.buffers()[1], np.int32)[strings.offset : strings.offset + len(strings) + 1]
    if not len(strings):
        return np.empty(0, np.uint8), np.empty(0, np.int64)
    buffer = strings.buffers()[2]
    data = np.frombuffer(b"" if buffer is None else buffer, np.uint8)
    return data[offsets[0] : offsets[-1]], (offsets[1:] - offsets[0]).astype(np.int64)


def _parts(data: np.ndarray, ends: Ints, separator: int = PART_END) -> tuple[Ints, Ints, Ints]:
    """Return start, stop and row of every part.

    A record with k separators has k + 1 parts; some are empty.
    """
    marks = np.flatnonzero(data == separator)
    stops = np.concatenate((marks, ends))
    begins = np.concatenate((marks + 1, ends))
    row_of_stop = np.concatenate((np.searchsorted(ends, marks, "right"), np.arange(len(ends))))
    order = np.lexsort((stops, row_of_stop))
    stops, row = stops[order], row_of_stop[order]
    starts = np.concatenate(([0], begins[order][:-1]))[: len(stops)]
    return starts.astype(np.int64), stops.astype(np.int64), row.astype(np.int64)


def _first_in(places: Ints, starts: Ints, none: int) -> Ints:
    """Return the first of the rising `places` at or after each start; `none` without one."""
    if not len(places):
        return np.full(len(starts), none, np.int64)
    at = np.searchsorted(places, starts)
    return np.where(at < len(places), places[np.minimum(at, len(places) - 1)], none).astype(np.int64)


def _last_of_equals(row: Ints, name: np.ndarray, name_count: int) -> Ints | None:
    """Return the pairs to keep, the last of equal names in each record; None if all names differ."""
    code = row * name_count + name
    distinct, backwards = np.unique(code[::-1], return_index=True)
    if len(distinct) == len(code):
        return None
    return np.sort(len(code) - 1 - backwards)
