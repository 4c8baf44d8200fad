"""The commands, one module each: parse, one engine call, return a Result.

To add the command `find-gaps`:

    1. commands/find_gaps.py with a function `run` (its parameters are the options, its docstring is the help: one line
       below 55 characters, a blank line, the rest) and `EXAMPLES`, the lines that help and man page show
    2. a line in COMMANDS below, and its first word in PANELS; a group of commands is a module with `run_<name>`
       functions, and a line in GROUPS
    3. a line in documents/ with the types of its --format json document, such as the dataclass that its verb
       returns; a new name gets its meaning in vocabulary.json
    4. `python -m rmqctl.manpages man` writes its man page; optional module values for it: FILES (names in a store),
       SEE_ALSO (names of other commands), EXIT_CODES (code → its meaning here), SECTIONS (title → function)

    def run(ctx: typer.Context, topic: ..., ) -> Result:
        session: Session = ctx.obj
        opened = session.store.open()                 # reading; for a change see rmqctl/changing.py
        rows = ...                                    # dictionaries under JSON names, lazily where there are many
        return Result("find-gaps", facts, [Table("gaps", rows)], exit_code, verdict="3 gaps in OrderTopic")

Engine modules are imported inside `run`, so that --help stays fast.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CommandPlace:
    """The place of a command's function. `path` is one word, or two as in `checkpoint show`."""

    path: str
    module: str
    function: str = "run"

    def load(self) -> tuple[Callable[..., object], Sequence[str]]:
        """Return the command's function and its example lines."""
        module = self._module()
        examples = module.EXAMPLES
        lines = examples[self.path] if isinstance(examples, dict) else examples
        return getattr(module, self.function), lines

    def summary(self) -> str:
        """Return the first line of the command's help."""
        return str(getattr(self._module(), self.function).__doc__).split("\n", 1)[0].split(". ")[0].rstrip(".")

    def exit_codes(self) -> Mapping[int, str]:
        """Return the command's own meanings of exit codes."""
        return self._value("EXIT_CODES") or {}

    def sections(self) -> Mapping[str, Callable[[], Iterable[tuple[str, str]]]]:
        """Return the command's own sections of its man page: by title a function for terms with texts."""
        return self._value("SECTIONS") or {}

    def files(self) -> Sequence[str] | None:
        """Return the files of a store that the command reads or writes; None for the default list."""
        files: Sequence[str] | None = self._value("FILES")
        return files

    def see_also(self) -> Sequence[str]:
        """Return the commands under SEE ALSO."""
        return self._value("SEE_ALSO") or ()

    def _value(self, name: str) -> Any:
        value = getattr(self._module(), name, None)
        return value.get(self.path) if isinstance(value, Mapping) and self.path in value else value

    def _module(self) -> Any:
        return importlib.import_module(f"rmqctl.commands.{self.module}")


COMMANDS = (
    CommandPlace("info", "info"),
    CommandPlace("doctor", "doctor"),
    CommandPlace("report", "report"),
    CommandPlace("dump", "dump"),
    CommandPlace("find", "find"),
    CommandPlace("stale", "stale"),
    CommandPlace("put", "put"),
    CommandPlace("get", "get"),
    CommandPlace("index-query", "index_query"),
    CommandPlace("recover", "recover"),
    CommandPlace("truncate-dirty", "truncate_dirty"),
    CommandPlace("clean-expired", "clean_expired"),
    CommandPlace("simulate", "simulate"),
    CommandPlace("upgrade show", "upgrade", "run_show"),
    CommandPlace("checkpoint show", "checkpoint", "run_show"),
    CommandPlace("checkpoint rewrite", "checkpoint", "run_rewrite"),
    CommandPlace("check", "check"),
    CommandPlace("rebuild", "rebuild"),
    CommandPlace("rebuild timer", "timer", "run_rebuild"),
    CommandPlace("rebuild compaction", "compaction", "run_mend"),
    CommandPlace("rebuild message-database", "message_database", "run_rebuild"),
    CommandPlace("rebuild delay-offsets", "delay", "run_rewrite_offsets"),
    CommandPlace("rebuild topics", "config", "run_rebuild_topics"),
    CommandPlace("salvage", "salvage"),
    CommandPlace("usage", "usage"),
    CommandPlace("timeline", "timeline"),
    CommandPlace("lag", "lag"),
    CommandPlace("diff", "diff"),
    CommandPlace("fingerprint", "fingerprint"),
    CommandPlace("backup create", "backup", "run_create"),
    CommandPlace("backup list", "backup", "run_list"),
    CommandPlace("backup verify", "backup", "run_verify"),
    CommandPlace("backup diff", "backup", "run_diff"),
    CommandPlace("backup prune", "backup", "run_prune"),
    CommandPlace("backup restore", "backup", "run_restore"),
    CommandPlace("bundle", "bundle"),
    CommandPlace("replay", "replay"),
    CommandPlace("sql", "sql"),
    CommandPlace("export", "export"),
    CommandPlace("replicate pull", "replicate_pull"),
    CommandPlace("replicate serve", "replicate_serve"),
    CommandPlace("serve", "serve"),
    CommandPlace("stats", "served", "run_stats"),
    CommandPlace("flush", "served", "run_flush"),
    CommandPlace("stop", "served", "run_stop"),
    CommandPlace("flush-bench", "flush_bench"),
    CommandPlace("delay show", "delay", "run_show"),
    CommandPlace("timer show", "timer", "run_show"),
    CommandPlace("transaction show", "transaction", "run_show"),
    CommandPlace("transaction resolve", "transaction", "run_resolve"),
    CommandPlace("filter show", "filter", "run_show"),
    CommandPlace("filter register", "filter", "run_register"),
    CommandPlace("filter unregister", "filter", "run_unregister"),
    CommandPlace("schema", "schema"),
    CommandPlace("config check", "config", "run_check"),
    CommandPlace("config show", "config", "run_show"),
    CommandPlace("config reset-offsets", "config", "run_reset_offsets"),
    CommandPlace("config settings", "config", "run_settings"),
    CommandPlace("undo", "undo"),
    CommandPlace("quarantine list", "quarantine", "run_list"),
    CommandPlace("quarantine purge", "quarantine", "run_purge"),
)

PANELS = {
    "Look": ("info", "doctor", "check", "simulate", "lag", "usage", "report", "upgrade"),
    "Find and read": ("find", "get", "index-query", "sql", "dump", "stale", "timeline"),
    "Repair": ("recover", "truncate-dirty", "rebuild", "salvage", "clean-expired", "checkpoint"),
    "Write and serve": ("put", "serve", "stats", "flush", "stop", "flush-bench"),
    "Copy and convert": ("backup", "bundle", "export", "replay", "replicate", "diff", "fingerprint"),
    "Tables and settings": ("config", "delay", "timer", "transaction", "filter", "schema"),
    "Undo": ("undo", "quarantine"),
}
"""The words of `rmqctl --help` by panel, those needed daily first."""
RUNS_ON = ("Write and serve", "Copy and convert")
"""Panels whose commands may run for hours, and write notes at once; others write notes after their result."""
LONG = (*PANELS["Look"], "find", "stale", "timeline", *PANELS["Repair"], "put", "diff", "fingerprint")
"""Words whose commands write nothing to the terminal before their first bar, note, plan or result."""
FOREIGN = {
    "querymsgbyid": ("get --msg-id ID",),
    "querymsgbykey": ("index-query TOPIC KEY",),
    "querymsgbyuniquekey": ("index-query TOPIC KEY",),
    "querymsgbyoffset": ("get TOPIC --queue N --from N --limit 1",),
    "consumerprogress": ("lag",),
    "brokerstatus": ("info", "stats"),
    "topicstatus": ("usage --by topic,queue",),
    "topiclist": ("usage",),
    "statsall": ("usage", "stats"),
    "printmsg": ("get TOPIC",),
    "consumemessage": ("get TOPIC",),
    "resetoffsetbytime": ("config reset-offsets GROUP --topic TOPIC --to TIME",),
    "skipaccumulatedmessage": ("config reset-offsets GROUP --topic TOPIC --to last",),
    "querycq": ("dump consumequeue",),
    "cleanexpiredcq": ("clean-expired",),
    "getbrokerconfig": ("config settings",),
    "du": ("usage",),
    "df": ("info", "usage"),
    "head": ("get TOPIC --limit N",),
    "fix": ("doctor --fix",),
    "ls": ("info", "usage --by topic,queue"),
    "cat": ("get TOPIC", "dump KIND FILE"),
    "tail": ("get TOPIC --follow",),
    "grep": ("find TEXT",),
    "verify": ("check",),
    "fsck": ("check",),
    "repair": ("doctor", "recover --dry-run"),
    "dump-log": ("dump commitlog",),
    "snapshot": ("backup create TO",),
    "redrive": ("replay FROM --to NAMESERVER",),
    "restore": ("backup restore FROM --to NEWSTORE",),
}
"""Words of other tools in lower case, and the commands to use instead. Source: mqadmin (4.9.8), Kafka, Unix."""
ALIASES = {
    "rebuild queues": "rebuild --queues",
    "rebuild index": "rebuild --index",
    "audit": "check --fleet",
    "compaction mend": "rebuild compaction",
    "config rebuild-topics": "rebuild topics",
    "delay rewrite-offsets": "rebuild delay-offsets",
    "receive": "replicate pull",
    "send": "replicate serve",
    "timer rebuild": "rebuild timer",
}
"""Old and alternative words by their command's words or options; hidden from help and completion."""
FLEET_DOCUMENT = "audit"
"""The document of `check --fleet`."""
DOCUMENTS = (*(place.path for place in COMMANDS), FLEET_DOCUMENT)
"""The JSON documents that have a schema, by their names in `rmqctl schema`."""

GROUPS = {
    "backup": "Back a store up beside its broker, and restore it",
    "config": "Show and mend a broker's settings and its tables",
    "checkpoint": "Show or rewrite the checkpoint",
    "delay": "Show the state of delayed messages",
    "timer": "Show the state of timer messages",
    "replicate": "Copy a live broker's log, or serve a log to slaves",
    "transaction": "Show the outcome of transactions, or end one",
    "upgrade": "Show the consequences of an upgrade or a downgrade",
    "filter": "Show or change the SQL subscriptions of consumer groups",
    "quarantine": "List or purge files that changing commands removed",
}
