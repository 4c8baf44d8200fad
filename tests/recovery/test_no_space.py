"""A full disk: an I/O error in one sentence, and nothing that was stored before is lost."""

from __future__ import annotations

import contextlib
import errno
import json
from itertools import count
from pathlib import Path

import pytest

from store import MessageStore, PutResult, PutStatus, open_store
from store.errors import StoreIOError
from tests.support.faulty_filesystem import FaultyFilesystem
from tests.support.golden import golden
from tests.support.processes import namespace, run_script_on_small_disk
from tests.support.stores import SMALL, recover, stored_messages, text_message

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
        rmqctl {SIZES} --store "$1/store" put --from "{source}" > /dev/null 2> "{tmp_path}/err"
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


def put_until_refused(store: MessageStore) -> PutResult:
    return next(result for number in count(40) if not (result := store.put(text_message(number))).is_ok)
