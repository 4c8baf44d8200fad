"""A line for every command, and what its output must be like."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from rmqctl.layout import text_width
from rmqctl.output import Format
from tests.support.golden import golden

LINES = {
    "info": "info",
    "doctor": "doctor",
    "report": "report --html OUT/NEW.html",
    "dump": "dump commitlog --limit 20",
    "find": "find order5",
    "stale": "stale",
    "put": "put 订单主题 '🙂 hello' --key 键",
    "get": "get TopicA --max 5",
    "index-query": "index-query TopicA order5",
    "recover": "recover --abnormal --dry-run",
    "truncate-dirty": "truncate-dirty --offset 1024 --dry-run",
    "clean-expired": "clean-expired --force --reserved-hours 0 --dry-run",
    "simulate": "simulate",
    "upgrade show": "upgrade show --to 5.5",
    "checkpoint show": "checkpoint show",
    "checkpoint rewrite": "checkpoint rewrite --dry-run",
    "check": "check",
    "rebuild": "rebuild --dry-run",
    "salvage": "salvage",
    "usage": "usage --by topic,queue,tag,day",
    "timeline": "timeline",
    "lag": "lag",
    "diff": "diff STORE OTHER",
    "fingerprint": "fingerprint",
    "backup create": "backup create OUT/NEW",
    "backup list": "backup list BACKUPS",
    "backup verify": "backup verify BACKUPS",
    "backup diff": "backup diff BACKUPS",
    "backup prune": "backup prune BACKUPS --keep-last 1 --dry-run",
    "backup restore": "backup restore BACKUPS --to OUT/NEW",
    "bundle": "bundle OUT/NEW.tar.zst --salt x --yes",
    "replay": "replay STORE --to no-address --dry-run",
    "sql": 'sql "select * from messages limit 5"',
    "export": "export --to OUT/NEW --as csv",
    "flush-bench": "flush-bench --messages 20 --mode async",
    "delay show": "delay show",
    "rebuild delay-offsets": "rebuild delay-offsets --dry-run",
    "timer show": "timer show",
    "rebuild timer": "rebuild timer --dry-run",
    "rebuild message-database": "rebuild message-database --dry-run",
    "transaction show": "transaction show",
    "transaction resolve": "transaction resolve 0 --commit --dry-run",
    "rebuild compaction": "rebuild compaction --dry-run",
    "schema": "schema",
    "config check": "config check",
    "config show": "config show",
    "rebuild topics": "rebuild topics --dry-run",
    "config reset-offsets": "config reset-offsets nobody --topic TopicA --to first --dry-run",
    "config settings": "config settings",
    "undo": "undo 20260101T000000.000-recover",
    "quarantine list": "quarantine list",
    "quarantine purge": "quarantine purge --yes",
    # Without a master, a slave or a process that serves the store these end at once.
    "replicate pull": "replicate pull no-address --to OUT/NEW",
    "replicate serve": "replicate serve --listen no-address",
    "serve": "serve --metrics no-address",
    "stats": "stats",
    "flush": "flush",
    "stop": "stop",
    "filter show": "filter show",
    "filter register": "filter register GROUP TopicA 'a > 1'",
    "filter unregister": "filter unregister GROUP",
}


REFUSED = (
    "truncate-dirty", "transaction resolve", "undo", "replicate pull", "replicate serve", "serve", "stats",
    "flush", "stop", "filter register", "filter unregister", "config reset-offsets", "replay",
)  # fmt: skip


STORE_IS_NAMED = ("diff", "replay", "replicate pull")


def words_of(path: str, store: Path, out: Path, form: Format = Format.AUTO) -> list[str]:
    line = LINES[path].replace("STORE", str(store)).replace("OTHER", str(golden("torn").store))
    line = line.replace("BACKUPS", str(store.with_name("backups")))
    given = [] if path in STORE_IS_NAMED else ["--store", str(store)]
    words = shlex.split(line.replace("OUT", str(out)).replace("NEW", form.value))
    return ["--quiet", "--format", form.value, *given, *words]


def check_table(out: str) -> None:
    wide = [line for line in out.splitlines() if text_width(line) > 80]
    assert not wide, wide[:3]


def lines_of_tables(plain: str) -> list[int]:
    """How many lines each table has below its rule."""
    lines = plain.splitlines()
    rules = [number for number, line in enumerate(lines) if re.fullmatch(r"-{2,}( +-+)*", line)]
    return [next((n for n, line in enumerate(lines[rule + 1 :]) if not line), len(lines) - rule - 1) for rule in rules]


def lists_in(document: object) -> list[int]:
    """The lengths of a document's lists of rows, below its facts too."""
    inside = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    own = [len(document)] if isinstance(document, list) else []
    return own + [length for one in inside for length in lists_in(one)]
