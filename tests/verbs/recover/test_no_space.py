"""A full disk: an I/O error in one sentence, and nothing that was stored before is lost."""

from __future__ import annotations

import contextlib
import errno
import json
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from store import MessageStore, PutResult, PutStatus, open_store
from store.engine.live import reput, service
from store.engine.live.arrivals import Arrival
from store.engine.live.running_flags import RunningFlag
from store.errors import StoreIOError
from store.files.store_reader import StoreReader
from store.verbs.check.check import check_files
from tests.support.faulty_filesystem import FaultyFilesystem
from tests.support.golden import golden
from tests.support.processes import namespace, run_script_on_small_disk
from tests.support.stores import SMALL, recover, stored_messages, text_message
from tests.support.threads import eventually

needs_mounts = pytest.mark.skipif(not namespace(), reason="this system lets nobody mount")
IO_ERROR = 5
SIZES = (
    "--set mappedFileSizeCommitLog=65536 --set mappedFileSizeConsumeQueue=2000 "
    "--set maxHashSlotNum=50 --set maxIndexNum=500"
)
LOOK = 'find . -type f ! -path "./.rmqctl/*" | sort | xargs sha256sum'


@needs_mounts
def test_a_new_store_for_which_there_is_no_space_is_refused_in_one_sentence(tmp_path: Path) -> None:
    done = run_script_on_small_disk(tmp_path, "300k", 'rmqctl --store "$1/store" put T body')
    assert_out_of_space(done.code, done.err)


@pytest.mark.turns(3)
@needs_mounts
def test_puts_end_in_an_io_error_when_the_disk_is_full_and_what_was_stored_can_be_read(
    tmp_path: Path,
) -> None:
    source = tmp_path / "messages.jsonl"
    disk = tmp_path / "disk"
    disk.mkdir()
    lines = (json.dumps({"topic": "T", "queue_id": 0, "body_text": f"{number} " + "x" * 200}) for number in range(4000))
    source.write_text("\n".join(lines))
    script = f"""
        rmqctl {SIZES} --store "$1/store" put --input "{source}" > /dev/null 2> "{tmp_path}/err"
        echo $?
        rmqctl {SIZES} --store "$1/store" --format json get T --queue 0 --max 100
    """
    done = run_script_on_small_disk(disk, "400k", script)
    code, _, answer = done.out.partition("\n")
    assert_out_of_space(int(code), (tmp_path / "err").read_text())
    bodies = [message["queue_offset"] for message in json.loads(answer)["messages"]]
    assert bodies == list(range(100))


@needs_mounts
def test_a_recovery_without_space_changes_nothing(tmp_path: Path) -> None:
    source, notes = golden("no-derived").store, tmp_path / "notes"
    disk = tmp_path / "disk"
    notes.mkdir()
    disk.mkdir()
    script = f"""
        cp -a "{source}" "$1/store"
        (cd "$1/store" && {LOOK}) > "{notes}/before"
        rmqctl {SIZES} --store "$1/store" recover --yes 2> "{notes}/err"
        echo $?
        (cd "$1/store" && {LOOK}) > "{notes}/after"
    """
    done = run_script_on_small_disk(disk, "272k", script)
    assert_out_of_space(int(done.out), (notes / "err").read_text())
    assert (notes / "before").read_text() == (notes / "after").read_text() != ""


CHANGES = {
    "recover": ("touch abort", "recover --abnormal --yes"),
    "rebuild": ("true", "rebuild --yes"),
    "truncate-dirty": ("true", "truncate-dirty --offset 0 --yes"),
    "clean-expired": ("true", "clean-expired --force --passes 100 --yes"),
    "checkpoint rewrite": ("rm checkpoint", "checkpoint rewrite --yes"),
    "undo": ('rmqctl --store "$PWD" truncate-dirty --offset 0 --yes > "$NOTES/first" 2>&1', "undo $ID"),
    "put": ("true", f"put T {'x' * 3000} --queue 77"),
}


@needs_mounts
@pytest.mark.slow
@pytest.mark.parametrize("free", [0, 8, 40], ids="{} KiB free".format)
@pytest.mark.parametrize("command", CHANGES)
def test_a_change_on_a_full_disk_is_done_or_changes_nothing_and_can_be_run_again(
    command: str, free: int, tmp_path: Path
) -> None:
    disk, notes = tmp_path / "disk", tmp_path / "notes"
    disk.mkdir()
    notes.mkdir()
    prepare, words = CHANGES[command]
    script = f"""
        NOTES="{notes}"; cp -a "{golden("many").store}" "$1/store"; cd "$1/store"; ID=
        {prepare}
        ID=$(ls .rmqctl/quarantine 2> /dev/null | head -1)
        {LOOK} > "{notes}/before"
        dd if=/dev/zero of="$1/filler" bs=4k 2> /dev/null
        truncate -s -{free}k "$1/filler"
        rmqctl --quiet --store "$PWD" {words} > /dev/null 2> "{notes}/err"; echo $?
        rm "$1/filler"
        {LOOK} > "{notes}/after"
        rmqctl --store "$PWD" {words} > /dev/null 2> "{notes}/again"; echo $?
    """
    done = run_script_on_small_disk(disk, "40m", script)
    code, again = map(int, done.out.split())
    if code:
        assert again == 0, (notes / "again").read_text()
    if code and command != "put":
        # A put that is refused has opened and closed the store, which moves the checkpoint.
        assert_out_of_space(code, (notes / "err").read_text())
        assert (notes / "after").read_text() == (notes / "before").read_text() != ""


def assert_out_of_space(code: int, err: str) -> None:
    assert code == IO_ERROR, err
    assert "no space left on device" in err
    assert len(err.strip().splitlines()) == 1
    assert "Traceback" not in err


def test_a_put_that_needs_a_new_file_on_a_full_disk_stores_nothing_and_keeps_the_rest(tmp_path: Path) -> None:
    full = False
    fs = FaultyFilesystem(errno_code=errno.ENOSPC, when=lambda name, _: full and name in ("preallocate", "open_new"))
    root = tmp_path / "store"
    store = open_store(root, settings=SMALL, read_only=False, fs=fs)
    for number in range(40):
        assert store.put(text_message(number)).is_ok
    store.catch_up()
    full = True
    refused = put_until_refused(store)
    assert refused.status is PutStatus.CREATE_MAPEDFILE_FAILED
    assert "no space" in refused.reason
    with contextlib.suppress(StoreIOError):
        store.close()
    recover(root)
    with open_store(root) as store:
        found = stored_messages(store)["T", 0]
    assert [body for _, body in found] == [text_message(number).body for number in range(len(found))]
    assert len(found) >= 40


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("folder", "flag", "said"),
    [
        ("consumequeue", RunningFlag.WRITE_LOGICS_QUEUE_ERROR, "a queue cannot be written: "),
        ("index", RunningFlag.WRITE_INDEX_FILE_ERROR, "the index cannot be written: "),
    ],
)
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT], ids=errno.errorcode.get)
def test_messages_that_a_full_disk_kept_from_dispatch_are_dispatched_when_there_is_space(
    code: int, folder: str, flag: RunningFlag, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name, value in ((reput, "QUEUE_TRIES", 1), (reput, "INDEX_TRIES", 1), (service, "RETRY_S", 0.01)):
        monkeypatch.setattr(module, name, value)
    full = False
    names = ("preallocate", "open_new", "publish")
    fs = FaultyFilesystem(
        errno_code=code, when=lambda name, at: full and name in names and folder in Path(getattr(at, "path", at)).parts
    )
    heard = Heard()
    with open_store(tmp_path / "store", settings=SMALL, read_only=False, services=[], fs=fs) as store:
        store.add_listener(heard)
        assert store.put(text_message(0)).is_ok
        store.catch_up()
        full = True
        answers = put_until(store, lambda: flag in store.flags)
        refused = store.put(text_message(999))
        assert (refused.status, refused.reason[: len(said)]) == (PutStatus.SERVICE_NOT_AVAILABLE, said)
        assert (store.state().retrying_services, store.state().failed_services) == (["ReputMessageService"], [])
        told = [finding.partition(": ")[0] for finding in store.describe_findings()]
        assert [one for one in told if one != "a queue cannot be written, and is tried again"] == [
            "ReputMessageService tries again", "puts are refused"
        ]  # fmt: skip
        full = False
        # The round has its success noted behind the dispatch.
        assert eventually(lambda: (store.describe_findings(), store.state().retrying_services) == ([], []))
        assert flag not in store.flags
        assert store.put(text_message(len(answers) + 1)).is_ok
        store.catch_up()
        found = [body for _, body in stored_messages(store)["T", 0]]
        assert found == [text_message(number).body for number in range(len(answers) + 2)]
        assert eventually(lambda: heard.offsets == list(range(1, len(found) + 1)))
    assert [finding.kind for finding in check_files(StoreReader(str(tmp_path / "store")))] == []


class Heard:
    """The queue offsets behind the messages that a listener heard of."""

    def __init__(self) -> None:
        self.offsets: list[int] = []

    def arriving(self, arrival: Arrival) -> None:
        self.offsets.append(arrival.next_offset)


def put_until(store: MessageStore, condition: Callable[[], bool]) -> list[PutResult]:
    """Puts messages one by one, each dispatched or refused, until the condition holds."""
    answers: list[PutResult] = []
    while not condition() and len(answers) < 2000:
        answers.append(store.put(text_message(len(answers) + 1)))
        assert eventually(lambda: condition() or not store.behind_bytes)
    assert all(answer.is_ok for answer in answers)
    return answers


def put_until_refused(store: MessageStore) -> PutResult:
    return next(result for number in count(40) if not (result := store.put(text_message(number))).is_ok)


def test_a_file_made_ahead_that_cannot_be_deleted_leaves_no_lock_and_no_thread(tmp_path: Path) -> None:
    fs = FaultyFilesystem(errno_code=errno.EIO, when=lambda name, path: name == "unlink" and path.name != "abort")
    root, threads = tmp_path / "store", threading.active_count()
    store = open_store(root, settings=SMALL, read_only=False, fs=fs)
    assert store.put(text_message(1)).is_ok
    with contextlib.suppress(StoreIOError):
        store.close()
    assert threading.active_count() == threads
    recover(root, settings=SMALL)
