"""What was promised survives a power cut, an error and a kill at any call; a slice of the long runs of tests/README."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from store.change.actions import Remove
from store.change.change import Change
from store.files import durable
from store.files.filesystem import Descriptor, Filesystem
from store.formats.java import crc32
from store.formats.message import BORN_TIMESTAMP_AT, LOG_OFFSET_AT, decode_record
from store.structures.commitlog import scan
from store.structures.findings import BAD_CRC, BAD_SELF_OFFSET, INDEX_HEADER, MISSING_UNIT, QUEUE_SHIFT, Finding
from tests.runs import copied_stores, power_cuts
from tests.runs.copied_stores import COPIES
from tests.runs.nth_call import FAILURES, runs
from tests.runs.served_records import TornRecord, records_of, unexplained
from tests.runs.whole_changes import CASES, verify_whole
from tests.support.simulated_disk import Cut, SimulatedDisk


@pytest.mark.slow
def test_nothing_promised_is_lost_by_a_power_cut(tmp_path: Path) -> None:
    done = Counter(power_cuts.power_cuts(tmp_path, 70, seed=20261121, names=power_cuts.WORKS))
    assert done.total() == 70


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_change_of_a_brokers_store_is_whole_or_undone_after_a_power_cut(name: str, tmp_path: Path) -> None:
    assert list(power_cuts.power_cuts(tmp_path, 4, seed=20261123, names=[name])) == [name] * 4


@pytest.mark.turns(5)
@pytest.mark.parametrize("name", COPIES)
def test_a_store_made_of_anothers_records_is_whole_or_none_after_a_power_cut(name: str, tmp_path: Path) -> None:
    assert list(power_cuts.power_cuts(tmp_path, 12, seed=20261125, names=[name])) == [name] * 12


class ForgetfulDisk(SimulatedDisk):
    """A disk that reports a sync and does none."""

    def after(self, name: str, *rest: object) -> None:
        if name not in ("fdatasync", "fsync_folder"):
            super().after(name, *rest)  # type: ignore[arg-type]


@pytest.mark.turns(3)
def test_a_disk_that_does_not_sync_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power_cuts, "SimulatedDisk", ForgetfulDisk)
    with pytest.raises(AssertionError, match="run seed"):
        list(power_cuts.power_cuts(tmp_path, 200, seed=1, names=power_cuts.WORKS))


@pytest.mark.turns(6)
@pytest.mark.parametrize("name", [*CASES, *COPIES])
def test_a_change_or_copy_of_a_brokers_store_on_a_disk_that_does_not_sync_is_found_out(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (power_cuts, copied_stores):
        monkeypatch.setattr(module, "SimulatedDisk", ForgetfulDisk)
    with pytest.raises(AssertionError, match="run seed"):
        list(power_cuts.power_cuts(tmp_path, 200, seed=1, names=[name]))


@pytest.fixture
def unpromised(tmp_path: Path) -> tuple[Cut, dict[int, bytes]]:
    """A store as a power cut could leave it, its last record promised to nobody, and the records that were put."""
    work = power_cuts.Work(tmp_path / "store", Filesystem(), power_cuts.Promises(), power_cuts.random.Random(1))
    work.put(20, "SYNC_FLUSH")
    (work.root / "abort").touch()
    promised = dict(sorted(work.promises.kept.items(), key=lambda one: one[0][1])[:-1])
    return Cut(tmp_path, "a planted fault", promised), work.written


def overwrite(cut: Cut, log_offset: int, data: bytes) -> None:
    segment = max(path for path in (cut.root / "store/commitlog").iterdir() if int(path.name) <= log_offset)
    with segment.open("r+b") as file:
        file.seek(log_offset - int(segment.name))
        file.write(data)


@pytest.mark.parametrize(("field", "size"), [("queue offset and log offset", 16), ("log offset", 8)])
def test_a_torn_head_of_a_record_that_nobody_was_promised_is_taken(
    field: str, size: int, unpromised: tuple[Cut, dict[int, bytes]]
) -> None:
    cut, written = unpromised
    overwrite(cut, max(written) + LOG_OFFSET_AT + 8 - size, bytes(size))
    power_cuts.verify(cut, written)


@pytest.mark.parametrize("place", [100, -3], ids=["body", "properties"])
def test_a_torn_record_is_cut(place: int, unpromised: tuple[Cut, dict[int, bytes]]) -> None:
    cut, written = unpromised
    overwrite(cut, max(written) + place % len(written[max(written)]), bytes(3))
    power_cuts.verify(cut, written)
    assert max(written) not in records_of(cut.root / "store")


def other_body(raw: bytes) -> bytes:
    """The record with another body, and the CRC of that."""
    found = decode_record(raw)
    body = b"!" * len(found.body)
    return raw.replace(found.body, body).replace(found.body_crc.to_bytes(4, "big"), crc32(body).to_bytes(4, "big"), 1)


@pytest.mark.parametrize(
    ("which", "planted", "said"),
    [
        (-1, other_body, "the body of the record"),
        (-2, lambda raw: raw[:BORN_TIMESTAMP_AT] + bytes(8) + raw[BORN_TIMESTAMP_AT + 8 :], "the promised record"),
        (-2, other_body, "is lost"),
        (None, lambda raw: raw, "never put"),
    ],
)
def test_a_planted_fault_is_found_by_the_comparison_with_what_was_put(
    which: int | None, planted: Callable[[bytes], bytes], said: str, unpromised: tuple[Cut, dict[int, bytes]]
) -> None:
    cut, written = unpromised
    if which is None:
        written.pop(max(written))
    else:
        place = sorted(written)[which]
        overwrite(cut, place, planted(written[place]))
    with pytest.raises(AssertionError, match=said):
        power_cuts.verify(cut, written)


def test_a_recovery_that_serves_torn_bodies_is_found_out(
    unpromised: tuple[Cut, dict[int, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    cut, written = unpromised
    monkeypatch.setitem(power_cuts.SMALLER, "checkCRCOnRecover", False)
    overwrite(cut, max(written) + 100, bytes(8))
    with pytest.raises(AssertionError, match="the body of the record"):
        power_cuts.verify(cut, written)


def test_a_recovery_that_serves_torn_properties_is_found_out(
    unpromised: tuple[Cut, dict[int, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    cut, written = unpromised
    monkeypatch.setattr(scan, "_is_torn", lambda *_, **__: False)
    overwrite(cut, max(written) + len(written[max(written)]) - 3, bytes(3))
    with pytest.raises(AssertionError, match="the properties of the last record"):
        power_cuts.verify(cut, written)


def test_findings_about_anything_but_the_torn_record_stand(unpromised: tuple[Cut, dict[int, bytes]]) -> None:
    _, written = unpromised
    message = decode_record(written[max(written)])
    torn = {message.log_offset: TornRecord(message, message)}
    about = [
        Finding(BAD_SELF_OFFSET, "log", message.log_offset),
        Finding(QUEUE_SHIFT, "queue", 3, message.topic, message.queue_id),
        Finding(INDEX_HEADER, "index", 0),
    ]
    others = [
        Finding(BAD_SELF_OFFSET, "log", message.log_offset + 1),
        Finding(BAD_CRC, "log", message.log_offset),
        Finding(QUEUE_SHIFT, "queue", 3, message.topic, message.queue_id + 1),
        Finding(MISSING_UNIT, "queue", 3, message.topic, message.queue_id),
    ]
    assert unexplained([*about, *others], torn) == others
    assert unexplained(about, {}) == about


@pytest.mark.slow
@pytest.mark.parametrize("failure", FAILURES)
def test_nothing_promised_is_lost_by_a_failing_call(failure: str, tmp_path: Path) -> None:
    done = Counter(name for name, _, _ in runs(tmp_path, list(power_cuts.WORKS), [failure], every=37))
    assert set(done) == set(power_cuts.WORKS)


class RecordingFilesystem(Filesystem):
    """The order of the calls that make something durable, and of renames and removals."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls: list[tuple[str, str]] = []

    def _note(self, name: str, path: Path) -> None:
        self.calls.append((name, str(path.relative_to(self.root)) if path.is_relative_to(self.root) else ".."))

    def fdatasync(self, descriptor: Descriptor) -> None:
        super().fdatasync(descriptor)
        self._note("fdatasync", descriptor.path)

    def fsync_folder(self, folder: Path) -> None:
        super().fsync_folder(folder)
        self._note("fsync_folder", folder)

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self._note("rename", target)


@pytest.mark.parametrize("few", [durable.FEW, 0], ids=["in order", "in threads"])
def test_what_recover_built_is_durable_before_the_abort_marker_goes(
    few: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "FEW", few)
    monkeypatch.setattr(durable, "QUICK_S", -1.0)
    root = tmp_path / "store"
    work = power_cuts.Work(root, Filesystem(), power_cuts.Promises(), power_cuts.random.Random(1))
    work.put(20, "SYNC_FLUSH")
    for name in ("consumequeue", "index"):
        Filesystem().remove_tree(root / name)
    work.disk = fs = RecordingFilesystem(root)
    work.recover()
    marker = next(at for at, call in enumerate(fs.calls) if call[0] == "rename" and call[1].endswith("-abort"))
    before = fs.calls[:marker]
    first = next(at for at, call in enumerate(before) if call[0] == "rename" and call[1].startswith("consumequeue"))
    synced = {path for name, path in before[:first] if name == "fdatasync" and path.startswith(".rmqctl/staging")}
    assert len(synced) == sum(name == "rename" and path.startswith(("consumequeue", "index")) for name, path in before)
    for queue in (root / "consumequeue" / "T").iterdir():
        folder = str(queue.relative_to(root))
        renamed = max(at for at, call in enumerate(before) if call[0] == "rename" and call[1].startswith(folder))
        assert ("fsync_folder", folder) in before[renamed:]
    for folder in ("consumequeue/T", "consumequeue", "index", "."):
        assert ("fsync_folder", folder) in before
    assert ("fsync_folder", ".") in fs.calls[marker:]


def test_names_in_a_folder_outside_of_the_store_are_durable_too(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "store", tmp_path / "log"
    root.mkdir()
    elsewhere.mkdir()
    for path in (elsewhere / "segment", root / "abort"):
        path.touch()
    fs = RecordingFilesystem(tmp_path)
    Change("test", root, fs, [Remove(elsewhere / "segment", "test"), Remove(root / "abort", "test")]).apply()
    marker = next(at for at, (name, path) in enumerate(fs.calls) if name == "rename" and path.endswith("-abort"))
    assert ("fsync_folder", "log") in fs.calls[:marker]


@pytest.mark.slow
@pytest.mark.parametrize("failure", FAILURES)
def test_a_change_of_a_brokers_store_is_done_as_a_whole_or_undone_at_a_failing_call(
    failure: str, tmp_path: Path
) -> None:
    done = Counter(name for name, _, _ in runs(tmp_path, list(CASES), [failure], every=211))
    assert set(done) == set(CASES)


def test_a_change_that_is_left_half_done_is_found_out(tmp_path: Path) -> None:
    root = CASES["config rebuild-topics"].make(tmp_path)
    (root / "config/topics.json").write_text("half")
    with pytest.raises(AssertionError, match="neither as before nor as after"):
        verify_whole(root, "config rebuild-topics", "a planted fault", None, has_ended=False)
