"""The ledger of a replay: each message and its outcome, in one SQLite file of the user's folder.

    messages   key          topic, unique key and body (Sending.key)
               state        acknowledged, refused, again (known not to be there) or doubt
               run          the number of the run that wrote the row last
               twice        1 if it was sent again while it was in doubt
               and its source record, its queue in the target, and the answer
    runs       number, time, source, target

A row is on disk as `doubt` before its message is sent; the answer is written with the next rows. So after any kill,
every message that a broker may have is in the ledger.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self

from store.errors import BadRequest, StoreError, StoreIOError, StoreLocked
from store.verbs.replay.sending import Sending
from store.verbs.replay.target import Answer, Doubt, Outcome, Place

NAME = "replay.sqlite"
FORMAT = 1
_SCHEMA = """
create table runs (run integer primary key, began_ms integer, source text, target text);
create table ledger (id text);
create table messages (
  key blob primary key, state text, run integer, twice integer, tries integer, origin text, uniq_key text, topic text,
  broker text, queue_id integer, queue_offset integer, msg_id text, sent_ms integer, reason text
) without rowid;
create index doubts on messages (state) where state = 'doubt';
"""
_SENT = """
insert into messages values (?, 'doubt', ?, 0, 1, ?, ?, ?, ?, ?, -1, '', ?, '') on conflict do update set
  twice = max(twice, state = 'doubt' and run < excluded.run), tries = tries + 1, state = 'doubt', run = excluded.run,
  broker = excluded.broker, queue_id = excluded.queue_id, sent_ms = excluded.sent_ms, reason = ''
"""
_DOUBT = "key, uniq_key, topic, origin, broker, queue_id, sent_ms"
_REFUSED = """
insert into messages values (?, 'refused', ?, 0, 0, ?, ?, ?, '', -1, -1, '', ?, ?) on conflict do update set
  state = iif(state = 'doubt', state, 'refused'), run = excluded.run, reason = excluded.reason
"""


class Ledger:
    """The ledger in `folder`, created if absent; this process locks it.

    id   of the ledger, in each message sent with it
    run  number of this run
    """

    def __init__(self, folder: Path, source: str, target: str, now_ms: int) -> None:
        self.path = folder / NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreIOError.from_os(error, folder, "make the ledger's folder") from error
        with self._errors():
            self._db = sqlite3.connect(self.path, isolation_level=None, timeout=0)
            # Exclusive mode comes before the first page is read; FULL syncs each transaction at its commit.
            self._db.execute("pragma locking_mode = exclusive")
            found = _require_ledger(self._db, self.path)
            for pragma in ("journal_mode = wal", "synchronous = full"):
                self._db.execute(f"pragma {pragma}")
            self._db.execute("begin immediate")
            if not found:
                # executescript commits the open transaction first.
                self._db.executescript(f"begin immediate;{_SCHEMA}pragma user_version = {FORMAT}")
                self._db.execute("insert into ledger values (?)", (os.urandom(4).hex(),))
            _require_target(self._db, target, self.path)
            ((self.id,),) = self._db.execute("select id from ledger").fetchall()
            row = (now_ms, source, target)
            (self.run,) = self._db.execute("insert into runs values (null, ?, ?, ?) returning run", row).fetchone()
            self._db.execute("commit")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._db.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Run one transaction; it is on disk when the block is left."""
        with self._errors():
            self._db.execute("begin immediate")
            yield
            self._db.execute("commit")

    def states(self, keys: Sequence[bytes]) -> dict[bytes, tuple[str, int]]:
        """Return state and last run of each known key."""
        with self._errors():
            asked = ((key, self._db.execute("select state, run from messages where key = ?", (key,))) for key in keys)
            found = {key: rows.fetchone() for key, rows in asked}
        return {key: row for key, row in found.items() if row is not None}

    def note_sent(self, batch: Sequence[tuple[Sending, Place]], now_ms: int) -> None:
        """Write these messages as `doubt`, as they are about to be sent."""
        rows = [
            (one.key, self.run, one.origin, one.uniq_key, one.topic, place.broker, place.queue_id, now_ms)
            for one, place in batch
        ]
        self._db.executemany(_SENT, rows)

    def note_refused(self, refused: Sequence[tuple[Sending, str]], now_ms: int) -> None:
        """Write these messages as `refused`; the target would refuse them, so they are not sent."""
        rows = [(one.key, self.run, one.origin, one.uniq_key, one.topic, now_ms, reason) for one, reason in refused]
        self._db.executemany(_REFUSED, rows)

    def note_answers(self, answers: Sequence[tuple[bytes, Answer]]) -> None:
        """Write the outcomes of messages."""
        rows = [(one.outcome.value, one.reason, one.msg_id, one.queue_offset, key) for key, one in answers]
        self._db.executemany("update messages set state=?, reason=?, msg_id=?, queue_offset=? where key=?", rows)

    def doubts(self) -> list[Doubt]:
        """Return all messages that may or may not be in the cluster."""
        return [Doubt(*row) for row in self._rows(_DOUBT, "state = 'doubt'")]

    def uncertain(self) -> list[tuple[str, str, str, str]]:
        """Return topic, unique key, origin and state of messages in doubt and of possible duplicates."""
        return self._rows("topic, uniq_key, origin, iif(twice, 'twice', state)", "state = 'doubt' or twice")

    def counts(self) -> dict[str, int]:
        """Return messages by state, and `twice`."""
        found: dict[str, int] = {one.value: 0 for one in Outcome}
        with self._errors():
            found |= self._db.execute("select state, count(*) from messages group by state").fetchall()
            (found["twice"],) = self._db.execute("select count(*) from messages where twice").fetchone()
        return found

    def _rows(self, columns: str, condition: str) -> list[Any]:
        with self._errors():
            query = f"select {columns} from messages where {condition} order by topic, origin"
            return self._db.execute(query).fetchall()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise _as_store_error(error, self.path) from error


def acknowledged_in(folder: Path | None, keys: Sequence[bytes], target: str | None = None) -> set[bytes]:
    """Return the keys that a ledger has as acknowledged, for a dry run; none without a ledger.

    BadRequest for the ledger of another target, if one is given.
    """
    if folder is None or not (path := folder / NAME).is_file():
        return set()
    try:
        # Not mode=ro: only a writer can read the write-ahead log that a killed run left.
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as db:
            if target is not None:
                _require_target(db, target, path)
            asked = "select 1 from messages where key = ? and state = 'acknowledged'"
            return {key for key in keys if db.execute(asked, (key,)).fetchone()}
    except sqlite3.Error as error:
        raise _as_store_error(error, path) from error


def _require_ledger(db: sqlite3.Connection, path: Path) -> int:
    """Return the form of a ledger, 0 for an empty database; BadRequest for another database."""
    (found,) = db.execute("pragma user_version").fetchone()
    names = {name for (name,) in db.execute("select name from sqlite_master where type = 'table'")}
    if names and (not found or "ledger" not in names):
        raise BadRequest("not a ledger, but another database", file=path, hint="name another folder")
    if found not in (0, FORMAT):
        raise BadRequest(f"a ledger of form {found}, and {FORMAT} is known", file=path)
    return int(found)


def _require_target(db: sqlite3.Connection, target: str, path: Path) -> None:
    """Raise BadRequest if no earlier run had one of the target's addresses.

    Messages that another cluster acknowledged would count as there, and not be sent.
    """
    former = [one for (one,) in db.execute("select target from runs order by run desc")]
    if former and set(_addresses(target)).isdisjoint(address for one in former for address in _addresses(one)):
        hint = (
            f"name a new folder for another cluster; if {former[0]} is the same one at a former address, give both: "
            f"{target};{former[0]}"
        )
        raise BadRequest(f"the ledger has messages sent to {former[0]}, and none to {target}", file=path, hint=hint)


def _addresses(target: str) -> list[str]:
    return [one.strip() for one in target.split(";")]


def _as_store_error(error: sqlite3.Error, path: Path) -> StoreError:
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
        return StoreLocked("another replay uses the ledger", file=path)
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
        return BadRequest("not a ledger", file=path, hint="name another folder")
    return StoreIOError(f"the ledger cannot be used: {error}", file=path)
