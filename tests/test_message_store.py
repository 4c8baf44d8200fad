"""What a store answers to a put when something is wrong with the message, the disk or one of its threads."""

from __future__ import annotations

import errno
import gc
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from store import Message, MessageStore, open_store
from store.errors import BadRequest, StoreClosed, StoreError, UncleanStore
from store.files import lost_pages
from store.structures.commitlog.put_result import PutStatus
from store.verbs.recover.plan import STALE_TAIL
from tests.support.faulty_filesystem import FaultyFilesystem
from tests.support.processes import environment
from tests.support.snapshots import contents
from tests.support.stores import SMALL, Clock, make_store, text_message


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "../../outside", "a\0b", "x" * 128, "ü" * 64])
def test_a_topic_that_no_queue_folder_can_have_is_refused_by_every_kind_of_put(topic: str, tmp_path: Path) -> None:
    with open_store(tmp_path / "store", settings=SMALL, read_only=False) as store:
        assert store.put(text_message(0, topic)).status is PutStatus.MESSAGE_ILLEGAL
        assert store.put_batch([text_message(0, topic)]).status is PutStatus.MESSAGE_ILLEGAL
        assert store.max_log_offset == 0


def test_a_batch_with_a_number_too_large_for_its_field_is_refused(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", settings=SMALL, read_only=False) as store:
        bad = [text_message(0), Message("T", b"body", 0, flag=1 << 40)]
        with pytest.raises(BadRequest, match="flag does not fit in 32 bits"):
            store.put_batch(bad)
        assert store.put(text_message(0)).queue_offset == 0


def test_puts_go_on_after_a_segment_could_not_be_created(tmp_path: Path) -> None:
    clock, full = Clock(), [False]

    def no_space(name: str, argument: object) -> bool:
        return full[0] and name == "preallocate"

    fs = FaultyFilesystem(when=no_space, errno_code=errno.ENOSPC)
    with open_store(tmp_path / "store", settings=SMALL, read_only=False, clock=clock, fs=fs) as store:
        full[0] = True
        refused = store.put(text_message(0))
        assert refused.status is PutStatus.CREATE_MAPEDFILE_FAILED
        assert "no space" in refused.reason
        full[0] = False
        clock.now_ms += 60_000
        assert store.put(text_message(0)).is_ok


@pytest.fixture
def no_collection() -> Iterator[None]:
    """Only references keep an object."""
    was_enabled = gc.isenabled()
    gc.disable()
    yield
    if was_enabled:
        gc.enable()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc names the maps")
@pytest.mark.usefixtures("no_collection")
def test_a_closed_store_maps_no_segment_so_that_a_deleted_one_gives_its_space_back_at_once(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with open_store(root, settings=SMALL, read_only=False) as store:
        store.put(text_message(0))
        store.catch_up()
        assert str(root / "commitlog") in Path("/proc/self/maps").read_text()
    assert str(root / "commitlog") not in Path("/proc/self/maps").read_text()


def test_a_put_that_meets_the_closing_of_the_log_creates_no_segment(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store", settings=SMALL, read_only=False)
    log = store._log
    store.put(text_message(0))
    store.close()
    with pytest.raises(StoreClosed, match="the store is closed"):
        log.put(text_message(1))
    assert log.segments.files == []


def test_puts_are_refused_once_the_flush_has_failed(tmp_path: Path) -> None:
    broken = [False]
    fs = FaultyFilesystem(when=lambda name, argument: broken[0] and name == "fdatasync")
    settings = {**SMALL, "flushIntervalCommitLog": 1, "flushCommitLogThoroughInterval": 1}
    store = open_store(tmp_path / "store", settings=settings, read_only=False, fs=fs)
    broken[0] = True
    with pytest.raises(StoreError):
        put_for_a_minute(store)
    broken[0] = False
    with pytest.raises(StoreError):
        store.close()
    assert (tmp_path / "store" / "abort").exists()


def test_a_damaged_log_is_refused_for_writing_and_nothing_is_changed(tmp_path: Path) -> None:
    root = damaged_store(tmp_path / "store")
    before = contents(root)
    with pytest.raises(UncleanStore, match="; 13 messages behind it would be given up") as refused:
        open_store(root, read_only=False)
    assert (refused.value.offset, refused.value.code) == (16384, "damaged-log")
    assert contents(root) == before


def test_opening_a_damaged_log_with_recover_says_what_it_cut(tmp_path: Path) -> None:
    root = damaged_store(tmp_path / "store")
    with open_store(root, read_only=False, recover=True) as store:
        (cut,) = [note for note in store.notes if note.startswith("the log was cut at 16384 because of ")]
        assert cut.split("; ")[1:] == ["13 messages are behind it", "new messages overwrite the rest of the segment"]
    with open_store(root, read_only=False) as store:
        assert store.notes + store.describe_findings() == [STALE_TAIL.format(16384)]


def test_an_empty_log_that_is_accepted_accepts_no_damaged_one(tmp_path: Path) -> None:
    root = damaged_store(tmp_path / "store")
    with pytest.raises(UncleanStore, match="; 13 messages behind it would be given up"):
        open_store(root, read_only=False, force_empty_log=True)


def test_a_message_is_not_delayed_where_entries_show_several_delays(tmp_path: Path) -> None:
    root = tmp_path / "store"
    for delays in ("300s 600s", "100s 200s"):
        with open_store(root, settings={**SMALL, "messageDelayLevel": delays}, read_only=False) as store:
            assert store.put(Message.of("T", "x", delay_level=1)).is_ok
    with open_store(root, read_only=False) as store:
        refused = store.put(Message.of("T", "x", delay_level=1))
        assert refused.status is PutStatus.MESSAGE_ILLEGAL
        assert refused.reason.startswith("the entries of delay level 1 show delays of 100s and 5m")
        assert store.put(text_message(0)).is_ok
    with open_store(root, settings={"messageDelayLevel": "300s 600s"}, read_only=False) as store:
        assert store.put(Message.of("T", "x", delay_level=1)).is_ok


def damaged_store(root: Path) -> Path:
    """Make a store of 100 messages with a damaged first record in its second segment."""
    make_store(root, 100)
    segment = root / "commitlog" / f"{SMALL['mappedFileSizeCommitLog']:020d}"
    segment.write_bytes(b"\x7f\xff\xff\xff" + segment.read_bytes()[4:])
    return root


def put_for_a_minute(store: MessageStore) -> None:
    for number in range(12_000):
        store.put(text_message(number))
        time.sleep(0.005)


def test_a_program_that_forgets_to_close_its_store_ends_all_the_same(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 3)
    # No service wakes for itself before the program's time is over.
    settings = {"cleanResourceInterval": 600_000, "flushIntervalConsumeQueue": 600_000}
    opened = f"open_store({str(root)!r}, read_only=False, settings={settings})"
    code = f"from store import *; s = {opened}; s.put(Message('T', b'x', 0))"
    subprocess.run([sys.executable, "-c", code], timeout=120, env=environment(), check=True)
    assert (root / "abort").exists()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"bogus": 1}, r"open_store\(\) got an unexpected keyword argument 'bogus'"),
        ({"setings": SMALL, "read_only": False}, r"open_store\(\) got an unexpected keyword argument 'setings'"),
        ({"services": ()}, r"'services' is an option of open_store\(\) for writing"),
        ({"recover": True}, r"'recover' is an option of open_store\(\) for writing"),
        ({"listen": "127.0.0.1:1"}, r"'listen' is an option of open_store\(\) for writing"),
        ({"as_is": True, "read_only": False}, r"'as_is' is an option of open_store\(\) for reading"),
    ],
)
def test_an_option_without_effect_is_refused(options: dict[str, Any], reason: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=reason):
        open_store(tmp_path / "store", **options)
    assert not (tmp_path / "store").exists()


def test_a_page_that_is_lost_while_a_message_is_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    with open_store(make_store(tmp_path / "store", 1)) as store:
        monkeypatch.setattr(lost_pages, "count", lambda: 7)
        monkeypatch.setattr(lost_pages, "require_none_since", seen.append)
        assert store.get("T", 0, offset=0).messages
    assert seen == [7]
