"""Write a bundle: the document, then folders and files, as one archive."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from store.errors import BadRequest
from store.files.filesystem import Filesystem
from store.files.store_reader import StoreReader
from store.formats.bundle import (
    ABSENT,
    BODILESS,
    DOCUMENT,
    END,
    FOLDER,
    RENAMED,
    UNREADABLE,
    WHOLE,
    BundledFile,
    BundleDocument,
    Ranges,
    encode_document,
    encode_head,
    encode_unreadable,
    padding,
)
from store.formats.zstd_frames import compress
from store.verbs.bundle.bodies import CHUNK_BYTES, BodyMask
from store.verbs.bundle.names import NameMask
from store.verbs.bundle.plan import BundlePlan, names_of_bundle, stored_file
from store.verbs.doctor import Examination
from store.verbs.fingerprint import fingerprint_files

UNFINISHED = ".unfinished"


@dataclass(slots=True)
class BundleOptions:
    """The options of a bundle.

    version   of the program
    settings  of the store, as given, without paths
    hides_properties  whether values of properties are disguised
    hides_names       whether names of topics, groups and hosts are disguised
    progress  is called with the bytes done and in all
    """

    version: str
    made_ms: int
    salt: bytes
    settings: Mapping[str, Any] = field(default_factory=dict)
    hides_properties: bool = False
    hides_names: bool = False
    progress: Callable[[int, int], None] = lambda done_bytes, bytes_in_all: None


@dataclass(frozen=True, slots=True)
class WrittenBundle:
    """A written bundle.

    unreadable  the unreadable ranges of bytes, by file
    kept_names  names that were to be hidden, and have no disguise
    """

    size: int
    unreadable: Mapping[str, Ranges]
    kept_names: Sequence[str] = ()


def write_bundle(
    plan: BundlePlan, reader: StoreReader, found: Examination, target: Path, options: BundleOptions, fs: Filesystem
) -> WrittenBundle:
    """Write the archive; BadRequest if the file exists."""
    if fs.exists(target):
        raise BadRequest("the file is there already", file=target, hint="name a new file, or delete this one")
    names = NameMask(options.salt, names_of_bundle(plan, reader)) if options.hides_names else None
    mask = BodyMask(options.salt, options.hides_properties or options.hides_names, names)
    staged = target.with_name(target.name + UNFINISHED)
    if fs.exists(staged):
        fs.unlink(staged)
    descriptor, size = fs.open_new(staged), 0
    try:
        for part in compress(_archive(plan, reader, found, mask, options)):
            fs.write(descriptor, size, part)
            size += len(part)
    except BaseException:
        fs.unlink(staged)
        raise
    fs.rename(staged, target)
    return WrittenBundle(size, mask.unreadable, names.kept if names is not None else ())


def _archive(
    plan: BundlePlan, reader: StoreReader, found: Examination, mask: BodyMask, options: BundleOptions
) -> Iterator[bytes | memoryview]:
    """Yield the bytes of the tar file."""
    data = encode_document(_document(plan, reader, found, options))
    data = data if mask.names is None else mask.names.text(data)
    renamed: Callable[[str], str] = str if mask.names is None else mask.names.path
    yield from (encode_head(DOCUMENT, len(data), options.made_ms), data, padding(len(data)))
    for folder in plan.folders:
        yield encode_head(f"{FOLDER}/{renamed(folder)}", 0, options.made_ms, is_folder=True)
    done = 0
    for file in (one for one in plan.files if one.content != ABSENT):
        yield encode_head(f"{FOLDER}/{renamed(file.path)}", file.size, file.mtime_ms)
        for part in _bytes_of(reader, file, mask):
            yield part
            done += len(part)
            options.progress(done, plan.size)
        yield padding(file.size)
    if mask.unreadable:
        data = encode_unreadable({renamed(path): ranges for path, ranges in mask.unreadable.items()})
        yield from (encode_head(UNREADABLE, len(data), options.made_ms), data, padding(len(data)))
    yield END


def _document(plan: BundlePlan, reader: StoreReader, found: Examination, options: BundleOptions) -> BundleDocument:
    findings = [{**asdict(one), "rank": int(one.rank)} for one in found.diagnoses]
    if options.hides_names:
        # A finding's text may have a name that is in records alone.
        findings = [{**one, "detail": "", "subject": ()} for one in findings]
    return BundleDocument(
        version=options.version,
        line=found.info.line.name,
        made_ms=options.made_ms,
        settings=options.settings,
        holds_log_alone=reader.holds_log_alone,
        findings=tuple(findings),
        digests=tuple(asdict(one) for one in fingerprint_files(reader)[0]),
        files=tuple(plan.files),
        notes=tuple(plan.left_out),
    )


def _bytes_of(reader: StoreReader, file: BundledFile, mask: BodyMask) -> Iterator[memoryview]:
    """Yield as many bytes as the plan has: a broker may write to the file meanwhile."""
    left = file.size
    for part in _parts_of(reader, file, mask):
        yield part[:left]
        left -= min(left, len(part))
    for _ in range(0, left, CHUNK_BYTES):
        yield memoryview(bytes(min(left, CHUNK_BYTES)))
        left -= min(left, CHUNK_BYTES)


def _parts_of(reader: StoreReader, file: BundledFile, mask: BodyMask) -> Iterator[memoryview]:
    if file.content == BODILESS:
        yield from mask.file(reader, stored_file(file))
    elif file.content == RENAMED and mask.names is not None:
        text = reader.salvage(file.path)
        if text.unreadable:
            mask.unreadable[file.path] = list(text.unreadable)
        yield memoryview(mask.names.text(bytes(text.buffer)))
    elif file.content == WHOLE:
        for at in range(0, file.size, CHUNK_BYTES):
            found = reader.map(file.path, at, CHUNK_BYTES).salvage()
            if found.unreadable:
                mask.unreadable.setdefault(file.path, []).extend(found.unreadable)
            yield found.buffer
