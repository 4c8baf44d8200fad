"""The commands, one module each: parse, one engine call, return a Result.

To add the command `find-gaps`:

    1. commands/find_gaps.py with a function `run` (its parameters are the options, its docstring is the help: one line
       below 55 characters, a blank line, the rest) and `EXAMPLES`, the lines that help and man page show
    2. a line in COMMANDS below with the help's first line, and its first word in PANELS; a group of commands is a
       module with `run_<name>` functions, and a line in GROUPS
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
from typing import Any, NamedTuple


class CommandPlace(NamedTuple):
    """The place of a command's function.

    path     one word, or two as in `checkpoint show`
    summary  the first line of the command's help: a list of commands imports no command
    """

    path: str
    module: str
    summary: str
    function: str = "run"

    def load(self) -> tuple[Callable[..., object], Sequence[str]]:
        """Return the command's function and its example lines."""
        module = self._module()
        examples = module.EXAMPLES
        lines = examples[self.path] if isinstance(examples, dict) else examples
        return getattr(module, self.function), lines

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
    CommandPlace("info", "info", "Show a store's kind, sizes and state"),
    CommandPlace("doctor", "doctor", "List everything that is wrong, the worst first"),
    CommandPlace("report", "report", "Write one page about a store"),
    CommandPlace("dump", "dump", "Show every field of a file's entries"),
    CommandPlace("find", "find", "Find a message, its places and its later copies"),
    CommandPlace("stale", "stale", "List records left past a segment's end"),
    CommandPlace("put", "put", "Append messages to the store"),
    CommandPlace("get", "get", "Read messages of a topic or queue, or one message"),
    CommandPlace("index-query", "index_query", "Find messages by key"),
    CommandPlace("recover", "recover", "Recover a store as a broker does at its start"),
    CommandPlace("truncate-dirty", "truncate_dirty", "Truncate the log, its queues and index at an offset"),
    CommandPlace("clean-expired", "clean_expired", "Delete expired files by the broker's rules"),
    CommandPlace("simulate", "simulate", "Show a broker's next start without making it"),
    CommandPlace("upgrade show", "upgrade", "Show the consequences of an upgrade or a downgrade", "run_show"),
    CommandPlace("checkpoint show", "checkpoint", "Show the checkpoint's promises against the files", "run_show"),
    CommandPlace(
        "checkpoint rewrite",
        "checkpoint",
        "Write a checkpoint that promises no more than the files hold",
        "run_rewrite",
    ),
    CommandPlace("check", "check", "Find damage in a store"),
    CommandPlace("rebuild", "rebuild", "Build consume queues and index from the log"),
    CommandPlace("rebuild timer", "timer", "Rebuild the timer's files from its messages (5.x)", "run_rebuild"),
    CommandPlace("rebuild compaction", "compaction", "Finish or drop a compaction that was interrupted", "run_mend"),
    CommandPlace(
        "rebuild message-database",
        "message_database",
        "Rebuild rocksdbstore/ from the log (5.4 and later)",
        "run_rebuild",
    ),
    CommandPlace(
        "rebuild delay-offsets", "delay", "Write delay offsets that deliver nothing twice", "run_rewrite_offsets"
    ),
    CommandPlace("rebuild topics", "config", "Rebuild topics.json from the log and the queues", "run_rebuild_topics"),
    CommandPlace("salvage", "salvage", "Save every record that can be read"),
    CommandPlace("usage", "usage", "Show disk usage"),
    CommandPlace("timeline", "timeline", "Show messages and bytes over time"),
    CommandPlace("lag", "lag", "Show how far each consumer group is behind"),
    CommandPlace("diff", "diff", "Compare two stores, such as master and slave"),
    CommandPlace("fingerprint", "fingerprint", "Print SHA-256 digests of a store"),
    CommandPlace("backup create", "backup", "Back up a store beside its live broker", "run_create"),
    CommandPlace("backup list", "backup", "List the backups of a folder, oldest first", "run_list"),
    CommandPlace("backup verify", "backup", "Verify the bytes of backups, and check their logs", "run_verify"),
    CommandPlace("backup diff", "backup", "Compare two backups, file by file", "run_diff"),
    CommandPlace("backup prune", "backup", "Delete old backups, and files that no backup needs", "run_prune"),
    CommandPlace("backup restore", "backup", "Restore a backup into a new store, whole or to a moment", "run_restore"),
    CommandPlace("bundle", "bundle", "Bundle a store without message bodies, for an expert"),
    CommandPlace("replay", "replay", "Send stored messages into a live cluster"),
    CommandPlace("sql", "sql", "Query stores with SQL"),
    CommandPlace("export", "export", "Write messages as files"),
    CommandPlace("replicate pull", "replicate_pull", "Copy a live broker's commit log"),
    CommandPlace("replicate serve", "replicate_serve", "Serve a store's commit log to slaves"),
    CommandPlace("serve", "serve", "Keep a store open, as a broker does"),
    CommandPlace("stats", "served", "Show the counters of a served store", "run_stats"),
    CommandPlace("flush", "served", "Flush a served store to the disk", "run_flush"),
    CommandPlace("stop", "served", "Stop the process that serves a store", "run_stop"),
    CommandPlace("flush-bench", "flush_bench", "Measure puts on the store's device"),
    CommandPlace("delay show", "delay", "Show delayed messages and their delivery", "run_show"),
    CommandPlace("timer show", "timer", "Show timer messages and their states (5.x)", "run_show"),
    CommandPlace("transaction show", "transaction", "Show transactions and the outcome of each", "run_show"),
    CommandPlace("transaction resolve", "transaction", "End a transaction in place of its producer", "run_resolve"),
    CommandPlace("filter show", "filter", "Show the SQL subscriptions of consumer groups", "run_show"),
    CommandPlace("filter register", "filter", "Subscribe a consumer group of a served store by SQL", "run_register"),
    CommandPlace("filter unregister", "filter", "Mark the SQL subscriptions of a group as dead", "run_unregister"),
    CommandPlace("schema", "schema", "Print the JSON Schema of a command's document"),
    CommandPlace("config check", "config", "Show how a broker would load its tables", "run_check"),
    CommandPlace("config show", "config", "Show the broker's tables as it would load them", "run_show"),
    CommandPlace("config reset-offsets", "config", "Set where a consumer group continues", "run_reset_offsets"),
    CommandPlace("config settings", "config", "List a broker's settings and where they come from", "run_settings"),
    CommandPlace("undo", "undo", "Undo a change"),
    CommandPlace("quarantine list", "quarantine", "List the changes that can be undone, oldest first", "run_list"),
    CommandPlace("quarantine purge", "quarantine", "Delete files in quarantine for good", "run_purge"),
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
