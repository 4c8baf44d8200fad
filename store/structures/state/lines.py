"""Read the small files with a 5.x broker's state line by line, with their faults.

    epochFileCheckpoint (.bak)            count, CRC of the rest, then epoch-startOffset for each
    brokerIdentity, brokerIdentity-temp   cluster#broker#id; the second has #code too
    dledger-<id>/currterm, checkpoint     name=number
    compaction/position-checkpoint        the last compacted queue offset of each queue
    config/consumerOrderInfo.json         ordered consumption: taken and acknowledged offsets of queues
    config/tieredStoreMetadata.json       topics, queues and files of tiered storage
    queues of rmq_sys_REVIVE_LOG_*        checkpoints and acknowledgements of pop consumers, as messages

Source: EpochFileCache, CheckpointFile, BrokerMetadata, MemberState, CompactionPositionMgr, ConsumerOrderInfoManager,
DefaultMetadataStore, PopCheckPoint, AckMsg (5.3.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from store.errors import StoreError
from store.files.filesystem import Filesystem
from store.files.segment_folders import find_member_logs
from store.files.store_reader import StoredFile, StoreReader
from store.formats.java import crc32, parse_long
from store.layout import EPOCHS, IDENTITY, ORDER_INFO, TIERED, StoreLayout
from store.structures.tables.fastjson import Json, member, members, parse_fastjson

TEMPORARY_IDENTITY = f"{IDENTITY}-temp"
POSITIONS = "compaction/position-checkpoint"
_CHECKPOINT_KEYS = frozenset(("so", "pt", "it", "n", "q", "t", "c"))
_ACK_KEYS = (frozenset(("ao", "so", "c", "t", "q", "pt")), frozenset(("ackOffset", "startOffset", "consumerGroup")))


@dataclass(frozen=True, slots=True)
class StateLine:
    """One value in a file. `fault` is a clause if the value is invalid."""

    file: str
    name: str
    value: str
    fault: str = ""


def state_files(files: StoreReader) -> list[StoredFile]:
    """Return the store's small files of state."""
    paths = [*_READERS]
    members = [one.name for one in find_member_logs(*files.tree)]
    for name in members:
        paths += [f"{name}/currterm", f"{name}/checkpoint"]
    return [file for path in paths if (file := files.file_at(path)) is not None]


def state_lines(files: StoreReader) -> Iterator[StateLine]:
    """Yield every value in the store's small files of state."""
    for file in state_files(files):
        yield from lines_of(files, file)


def lines_of(files: StoreReader, file: StoredFile) -> Iterator[StateLine]:
    """Return every value in one of these files; its name determines its format."""
    name = file.path.rpartition("/")[2]
    known = next((path for path in _READERS if path.rpartition("/")[2] == name), None)
    text = bytes(files.read(file.path)).decode("utf-8", "replace")
    return _READERS[known](file.path, text) if known is not None else _pairs(file.path, text)


def is_torn(text: str) -> bool:
    """Return whether an epoch file lacks numbers in its first two lines: a broker does not start with it."""
    lines = text.splitlines()
    return len(lines) < 2 or parse_long(lines[0]) is None or parse_long(lines[1]) is None


def epochs_of(text: str) -> tuple[list[tuple[int, int]], str]:
    """Return epochs with their start offsets, and the file's fault, empty without one."""
    lines = text.splitlines()
    if is_torn(text):
        return [], "torn: NumberFormatException, no broker in controller mode starts with it"
    found: list[tuple[int, int]] = []
    for line in lines[2:]:
        epoch, start = (parse_long(part) for part in line.partition("-")[::2])
        if epoch is None or start is None or start < 0:
            return found, f"{line!r} is no epoch and start offset; the copy is loaded instead"
        found.append((epoch, start))
    crc = crc32("".join(f"{epoch}-{start}\n" for epoch, start in found).encode())
    count, stored_crc = parse_long(lines[0]), parse_long(lines[1])
    if count != len(found):
        return found, f"counts {lines[0]} epochs, holds {len(found)}; the copy is loaded instead"
    if stored_crc not in (0, crc):
        return found, f"CRC {lines[1]} instead of {crc}; the copy, which may lack one epoch, is loaded"
    if any(one[0] >= two[0] or one[1] > two[1] for one, two in pairwise(found)):
        return found, "epochs or start offsets do not rise: a slave would cut its log at a wrong place"
    return found, ""


def _epochs(path: str, text: str) -> Iterator[StateLine]:
    found, fault = epochs_of(text)
    if fault:
        yield StateLine(path, "epochs", str(len(found)), fault)
    for epoch, start in found:
        yield StateLine(path, f"epoch {epoch}", str(start))


def _identity(path: str, text: str) -> Iterator[StateLine]:
    wanted = 4 if path.endswith(TEMPORARY_IDENTITY) else 3
    parts = text.strip().split("#")
    is_right = len(parts) == wanted and parse_long(parts[2]) is not None and all(parts)
    fault = "" if is_right else f"{len(parts)} parts between # instead of {wanted}: the broker requests a new id"
    yield StateLine(path, "identity", text.strip(), fault)


def _pairs(path: str, text: str) -> Iterator[StateLine]:
    for line in text.splitlines():
        name, sign, value = line.partition("=")
        is_right = bool(sign) and (name == "voteLeader" or parse_long(value) is not None)
        yield StateLine(path, name, value, "" if is_right else "no name and number")


def _table(read: Callable[[str, Json], Iterator[StateLine]]) -> Callable[[str, str], Iterator[StateLine]]:
    def lines(path: str, text: str) -> Iterator[StateLine]:
        try:
            document = parse_fastjson(text)
        except ValueError as error:
            yield StateLine(path, "document", f"{len(text)} characters", f"not what a broker writes: {error}")
            return
        yield from read(path, document)

    return lines


def _positions(path: str, document: Json) -> Iterator[StateLine]:
    for queue, position in members(member(document, "queueOffsetMap")).items():
        yield StateLine(path, queue, str(position), "" if isinstance(position, int) else "no queue offset")


def _order_info(path: str, document: Json) -> Iterator[StateLine]:
    for key, queues in members(member(document, "table")).items():
        for queue, info in members(queues).items():
            yield StateLine(path, f"{key} {queue}", _taken(info), _order_fault(key, info))


def _taken(info: Json) -> str:
    offsets = member(info, "o")
    count = len(offsets) if isinstance(offsets, list) else 0
    return f"popTime={member(info, 'popTime')} offsets={count} acknowledged={member(info, 'cm')}"


def _order_fault(key: str, info: Json) -> str:
    offsets, mask = member(info, "o"), member(info, "cm")
    if "@" not in key:
        return "the key is no topic@group"
    if not isinstance(offsets, list) or not all(isinstance(one, int) for one in offsets):
        return "o is no list of offsets"
    if isinstance(mask, int) and mask >> max(len(offsets), 1):
        return f"cm acknowledges more than {len(offsets)} messages"
    return ""


def _tiered(path: str, document: Json) -> Iterator[StateLine]:
    for topic, found in members(member(document, "topicMetadataTable")).items():
        status = member(found, "status")
        yield StateLine(path, f"topic {topic}", f"id={member(found, 'topicId')} status={status}")
    for topic, queues in members(member(document, "queueMetadataTable")).items():
        for queue, found in members(queues).items():
            low, high = member(found, "minOffset"), member(found, "maxOffset")
            is_right = isinstance(low, int) and isinstance(high, int) and low <= high
            fault = "" if is_right else "minOffset is above maxOffset, or no number"
            yield StateLine(path, f"queue {topic}/{queue}", f"{low} to {high}", fault)
    for kind in ("commitLog", "consumeQueue", "index"):
        for file, segments in members(member(document, f"{kind}FileSegmentTable")).items():
            for base, found in members(segments).items():
                size, same = member(found, "size"), member(found, "baseOffset")
                is_right = isinstance(size, int) and size >= 0 and str(same) == base
                fault = "" if is_right else "its size is no number, or baseOffset is not its key"
                yield StateLine(path, f"{kind} {file} {base}", f"size={size} status={member(found, 'status')}", fault)


def revive_line(topic: str, tags: str | None, body: bytes) -> StateLine:
    """Return a pop consumer's checkpoint or acknowledgement as a line."""
    try:
        document = parse_fastjson(body.decode("utf-8", "replace"))
    except ValueError as error:
        return StateLine(topic, str(tags), f"{len(body)} bytes", f"not what a broker writes: {error}")
    found = members(document)
    if tags == "ck":
        missing = sorted(_CHECKPOINT_KEYS - found.keys())
        value = f"{found.get('c')} {found.get('t')}/{found.get('q')} from {found.get('so')}: {found.get('n')} messages"
        acknowledged, count = found.get("bm"), found.get("n")
        fault = f"without {', '.join(missing)}" if missing else ""
        if isinstance(acknowledged, int) and isinstance(count, int) and acknowledged >> max(count, 1):
            fault = f"bm acknowledges more than {count} messages"
        return StateLine(topic, "checkpoint", value, fault)
    if tags in ("ack", "bAck"):
        is_right = any(keys <= found.keys() for keys in _ACK_KEYS)
        value = f"{found.get('c')} {found.get('t')}/{found.get('q')}: {found.get('aol') or found.get('ao')}"
        return StateLine(topic, "acknowledgement", value, "" if is_right else "fields are missing")
    return StateLine(topic, str(tags), f"{len(body)} bytes", "neither ck, ack nor bAck")


_READERS: dict[str, Callable[[str, str], Iterator[StateLine]]] = {
    EPOCHS: _epochs,
    f"{EPOCHS}.bak": _epochs,
    IDENTITY: _identity,
    TEMPORARY_IDENTITY: _identity,
    POSITIONS: _table(_positions),
    ORDER_INFO: _table(_order_info),
    TIERED: _table(_tiered),
}


def lines_at(layout: StoreLayout, fs: Filesystem, path: str) -> list[StateLine]:
    """Return the lines of a small file; none if it is missing or unreadable."""
    files = StoreReader.of(layout, fs)
    file = files.file_at(path)
    try:
        return list(lines_of(files, file)) if file is not None else []
    except StoreError:
        return []
