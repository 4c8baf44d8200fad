"""SimulatedDisk: a Filesystem that knows which bytes and names would survive a power cut at any of its operations.

    disk = SimulatedDisk(root, out, cuts={3, 17}, chance=random.Random(7))
    … the program under test works on `root` through `disk` …
    disk.taken        out/3 and out/17: the store as a machine would find it that lost power before operation 3 and 17

What survives for certain: bytes and length of a file at its last sync, the names in a folder at its last fsync_folder.
What may survive, by lot:

    bytes   each sector of 512 bytes that differs from the synced one is the new one, the old one, or torn between
    size    the synced one, or one that a file had since: a new file's name may stand on 0 bytes
    names   creating and removing, in any selection; an operation on a name needs those before it on the same name, and
            the folder that it is in. The sync of a folder makes durable what a rename did in that folder alone; without
            a sync its old name goes after the new one is there

Stricter than ext4 and XFS, which journal a rename whole, and a length before a later name; POSIX promises neither.

The program goes on after a cut: the state is copied, so that one run gives as many cuts as are asked for.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from store.files.filesystem import Descriptor, Filesystem
from tests.support.faulty_filesystem import ADVICE, MADE_OF_OTHERS

SECTOR = 512
LOOKS = frozenset({"exists", "is_link", "list_folder", "look_at", "map", "open_read", "populate", "read"})
LOOKS |= {"size_of", "stat", "used_ratio", "dont_need", "next_written", "written_ranges", "written_size"}


@dataclass(slots=True)
class _File:
    """A file's synced bytes, and a descriptor that keeps its inode from being used again."""

    number: int
    synced: bytes = b""
    sizes: set[int] = field(default_factory=set)
    """Lengths that the file was given since it was synced."""

    def now(self) -> bytes:
        return os.pread(self.number, os.fstat(self.number).st_size, 0)


class _Step(NamedTuple):
    """A change of a name that no sync has covered: it becomes a file, a folder, or nothing."""

    name: Path
    value: _File | str | None
    new_name: Path | None = None
    """Where a rename has moved it."""
    inside: Mapping[Path, _File | str] = MappingProxyType({})
    """What a renamed folder brings along."""


@dataclass(slots=True)
class Cut:
    """The store after a cut, and what `witness` said at that moment."""

    root: Path
    operation: str
    witness: Any


@dataclass(slots=True)
class _Names:
    """Names on the disk: those that are synced, and the steps since."""

    synced: dict[Path, _File | str] = field(default_factory=dict)
    steps: list[_Step] = field(default_factory=list)

    def now(self) -> dict[Path, _File | str]:
        return self.after(self.steps)

    def after(self, steps: Collection[_Step]) -> dict[Path, _File | str]:
        found = dict(self.synced)
        for name, value, _, inside in steps:
            if value is None:
                # As texts: comparing parts takes ten times as long.
                gone, below = str(name), f"{name}/"
                found = {at: kept for at, kept in found.items() if str(at) != gone and not str(at).startswith(below)}
            else:
                found |= {name: value, **inside}
        return found

    def inside(self, folder: Path, new_name: Path) -> dict[Path, _File | str]:
        """Return the synced names of a renamed folder; unsynced steps move along."""
        self.steps = [
            step._replace(name=new_name / step.name.relative_to(folder)) if folder in step.name.parents else step
            for step in self.steps
        ]
        within = {path: value for path, value in self.synced.items() if folder in path.parents}
        return {new_name / path.relative_to(folder): value for path, value in within.items()}

    def sync(self, folder: Path) -> None:
        """Make the steps in a folder durable."""
        self.synced = self.after([step for step in self.steps if step.name.parent == folder])
        self.steps = [step for step in self.steps if step.name.parent != folder]

    def survivors(self, chance: random.Random) -> dict[Path, _File | str]:
        """Return the names after a cut: a selection of the steps in which each has the steps that it needs."""
        share, lost, chosen = chance.choice((0.0, 0.5, 0.9, 1.0)), set[Path](), []
        for step in self.steps:
            if not lost.isdisjoint({step.name, *step.name.parents, step.new_name} - {None}) or chance.random() >= share:
                lost.add(step.name)
            else:
                chosen.append(step)
        return self.after(chosen)


class SimulatedDisk(Filesystem):
    """`cuts` are numbers of operations, from 1; `witness` is asked at each what the program was promised so far."""

    def __init__(
        self,
        root: Path,
        out: Path,
        *,
        cuts: Collection[int] = (),
        chance: random.Random | None = None,
        witness: Callable[[], Any] = lambda: None,
    ) -> None:
        self._root = root
        self._out = out
        self._at = frozenset(cuts)
        self._chance = chance or random.Random(0)
        self._witness = witness
        self._lock = threading.RLock()
        self._files: dict[int, _File] = {}
        self._names = _Names()
        self.operations: list[str] = []
        self.taken: list[Cut] = []
        for path in sorted(root.rglob("*")) if root.exists() else ():
            self._names.synced[path] = "folder" if path.is_dir() else self._file_at(path, is_synced=True)

    def close(self) -> None:
        """Close the descriptors."""
        for file in self._files.values():
            os.close(file.number)
        self._files.clear()

    def unsynced(self) -> list[str]:
        """Return the names in the root that a cut could change, or whose bytes it could change."""
        now, synced = self._names.now(), self._names.synced
        names = {name for name in now.keys() | synced.keys() if now.get(name) is not synced.get(name)}
        names |= {name for name, file in now.items() if isinstance(file, _File) and file.synced != file.now()}
        return sorted(str(name.relative_to(self._root)) for name in names - {self._root})

    def before(self, name: str, argument: Any) -> None:
        if name in LOOKS:
            return
        self.operations.append(f"{name} {getattr(argument, 'path', argument)}")
        if len(self.operations) in self._at:
            self.taken.append(self._cut(len(self.operations)))

    def cut_now(self) -> None:
        """Make one more cut, after the program's end."""
        self.operations.append("the end")
        self.taken.append(self._cut(len(self.operations)))

    def after(self, name: str, argument: Any, rest: tuple[Any, ...], result: Any) -> None:
        """Note an operation's changes of names, and the bytes that it made durable."""
        if name in ("fdatasync", "fsync"):
            file = self._files.get(os.fstat(argument.number).st_ino)
            if file is not None:
                file.synced, file.sizes = file.now(), set()
        elif name == "fsync_folder":
            self._names.sync(argument)
        elif name == "truncate":
            self._file_of(argument).sizes.add(rest[0])
        elif name in ("open_new", "publish"):
            file = self._file_of(result if name == "open_new" else argument)
            self._note((result or argument).path, file)
        elif name == "rename":
            value = self._names.now()[argument]
            self._note(rest[0], value, inside=self._names.inside(argument, rest[0]) if value == "folder" else {})
            self._note(argument, None, rest[0])
        elif (name == "unlink" and argument in self._names.now()) or (
            name == "remove_folder" and result and argument in self._names.now()
        ):
            self._note(argument, None)
        elif name == "make_folder":
            known = self._names.now()
            for folder in [*reversed(argument.parents), argument]:
                if folder.is_relative_to(self._root) and folder not in known:
                    self._note(folder, "folder")

    def _note(
        self,
        name: Path,
        value: _File | str | None,
        new_name: Path | None = None,
        inside: Mapping[Path, _File | str] = MappingProxyType({}),
    ) -> None:
        if name.is_relative_to(self._root):
            self._names.steps.append(_Step(name, value, new_name, inside))

    def _file_at(self, path: Path, *, is_synced: bool) -> _File:
        file = _File(os.open(path, os.O_RDONLY))
        file.synced = file.now() if is_synced else b""
        return self._files.setdefault(os.fstat(file.number).st_ino, file)

    def _file_of(self, descriptor: Descriptor) -> _File:
        inode = os.fstat(descriptor.number).st_ino
        known = self._files.get(inode)
        if known is None:
            known = self._files[inode] = _File(os.dup(descriptor.number))
        return known

    def _cut(self, number: int) -> Cut:
        root = self._out / str(number)
        root.mkdir(parents=True)
        for path, value in sorted(self._names.survivors(self._chance).items()):
            place = root / path.relative_to(self._root)
            if value == "folder":
                place.mkdir(parents=True, exist_ok=True)
            elif isinstance(value, _File) and place.parent.is_dir():
                place.write_bytes(mixed(value, self._chance))
        return Cut(root, self.operations[-1], self._witness())


def mixed(file: _File, chance: random.Random) -> bytes:
    """Return the bytes of a file after a power cut: some unsynced sectors were written, others were not."""
    old, new = file.synced, file.now()
    size = chance.choice(sorted({len(old), len(new), *file.sizes}))
    kind, parts = chance.choice(("old", "new", "any", "torn")), []
    for at in range(0, size, SECTOR):
        length = min(SECTOR, size - at)
        before, behind = (data[at : at + length].ljust(length, b"\0") for data in (old, new))
        if kind == "torn" and before != behind and chance.random() < 0.5:
            torn = chance.randrange(length + 1)
            parts.append(behind[:torn] + before[torn:])
        else:
            parts.append({"old": before, "new": behind}.get(kind) or chance.choice((before, behind)))
    return b"".join(parts)


def _watched(name: str) -> Callable[..., Any]:
    real = getattr(Filesystem, name)

    def method(self: SimulatedDisk, argument: Any, *rest: Any, **named: Any) -> Any:
        if name in LOOKS:
            return real(self, argument, *rest, **named)
        with self._lock:
            self.before(name, argument)
            result = real(self, argument, *rest, **named)
            self.after(name, argument, rest, result)
            return result

    return method


for _name in dir(Filesystem):
    if not _name.startswith("_") and _name not in MADE_OF_OTHERS | ADVICE:
        setattr(SimulatedDisk, _name, _watched(_name))
