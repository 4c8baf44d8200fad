"""The shell of `sql` without a query: runs queries until the input ends.

A query ends with a semicolon or an empty line. Words with a dot are for the shell: .tables, .schema [TABLE], .help,
.quit. On a terminal the input has completion of tables, columns and words of SQL, and a history in a file.
"""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

from rmqctl.context import Session
from rmqctl.exit_codes import OK, USAGE
from rmqctl.querying import Tables, tell_of_bodies
from rmqctl.result import Result, Table
from rmqctl.show import count
from store.errors import StoreError
from store.query.tables import QUERIES, TABLES

PROMPT, CONTINUED = "sql> ", "...> "
MOST_HISTORY = 1000
DOT_WORDS = (".tables", ".schema", ".help", ".quit")
WORDS = (
    *QUERIES, "where", "group by", "order by", "limit", "join", "using", "count(*)", "sum(", "min(", "max(", "avg(",
    "distinct", "having", "between", "like", "is null", "is not null", "union all", "case when", "then", "else", "end",
)  # fmt: skip
HELP = """A query ends with ; or an empty line. .tables, .schema [TABLE], .help, .quit"""


def run_shell(session: Session, tables: Tables, limit: int) -> int:
    """Run queries until the input ends; return USAGE if a query from a pipe failed."""
    session.release_notes()
    session.note(HELP)
    failed_count = 0
    with _keyboard(session) as is_typed:
        for text in _queries(session, is_typed=is_typed):
            if text == ".quit":
                break
            failed_count += 1
            with _failures_shown(session):
                session.show(_command(text) if text.startswith(".") else _answer(session, tables, text, limit))
                failed_count -= 1
    return USAGE if failed_count and not is_typed else OK


def _answer(session: Session, tables: Tables, text: str, limit: int) -> Result:
    columns, rows = tables.query(text, limit)
    tell_of_bodies(session, columns)
    if len(rows) == limit:
        session.note(f"only the first {limit} rows; see --limit")
    return Result("sql", {"row_count": len(rows)}, [Table("rows", rows, columns)], verdict=count(len(rows), "row"))


def _command(text: str) -> Result:
    """Return the result of a word with a dot."""
    word, *names = text.split()
    if word == ".tables":
        rows = [{"table": name, "columns": len(columns)} for name, columns in TABLES.items()]
        return Result("sql", {}, [Table("tables", rows)])
    if word == ".schema" and all(name in TABLES for name in names):
        rows = [
            {"table": table, "column": column, "type": kind}
            for table in names or TABLES
            for column, kind in TABLES[table].items()
        ]
        return Result("sql", {}, [Table("columns", rows)])
    return Result("sql", {"help": HELP})


@contextlib.contextmanager
def _failures_shown(session: Session) -> Iterator[None]:
    """Run a query; one that fails or is interrupted does not end the shell."""
    try:
        yield
    except StoreError as error:
        session.fail(str(error))
    except KeyboardInterrupt:
        session.fail("interrupted")


def _queries(session: Session, *, is_typed: bool) -> Iterator[str]:
    """Yield the queries of the input, without their semicolons."""
    lines: list[str] = []
    while True:
        try:
            line = _read_line(session, CONTINUED if lines else PROMPT, is_typed=is_typed)
        except KeyboardInterrupt:
            lines = []
            session.note("")
            continue
        if line is None:
            break
        if not lines and line.strip().startswith("."):
            yield line.strip()
            continue
        if line.strip():
            lines.append(line)
        if lines and (not line.strip() or line.rstrip().endswith(";")):
            yield "\n".join(lines).rstrip().rstrip(";")
            lines = []
    if lines:
        yield "\n".join(lines)


def _read_line(session: Session, prompt: str, *, is_typed: bool) -> str | None:
    """Return a line of the input; None at its end."""
    if not is_typed:
        line = session.environment.stdin.readline().decode(errors="replace")
        return line.rstrip("\n") if line else None
    try:
        return input(prompt)
    except EOFError:
        session.note("")
        return None


@contextlib.contextmanager
def _keyboard(session: Session) -> Iterator[bool]:
    """Yield whether lines are typed; then with completion, history, and a Ctrl-C that ends one query."""
    if not session.environment.can_ask:
        yield False
        return
    history = _history_file(session)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with contextlib.suppress(ImportError):  # a Python may be built without readline
        import readline

        readline.set_completer(complete)
        readline.set_completer_delims(" \t\n,()=<>+-*/%.'\"`")
        readline.parse_and_bind("tab: complete")
        readline.set_history_length(MOST_HISTORY)
        with contextlib.suppress(OSError):
            readline.read_history_file(history)
    try:
        yield True
    finally:
        signal.signal(signal.SIGINT, before)
        with contextlib.suppress(ImportError, OSError):
            import readline

            history.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(history)


def _history_file(session: Session) -> Path:
    variables = session.environment.variables
    state = variables.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    return Path(state, "rmqctl", "sql_history")


def complete(start: str, number: int) -> str | None:
    """Return the completion `number` (from 0) of `start`, for readline; None after the last."""
    found = completions(start)
    return found[number] if number < len(found) else None


def completions(start: str) -> Sequence[str]:
    """Return words of SQL, tables and columns that begin with `start`, in upper or lower case."""
    columns = (column for table in TABLES.values() for column in table)
    known = dict.fromkeys((*DOT_WORDS, *TABLES, *columns, *WORDS))
    return [word for word in known if re.match(re.escape(start), word, re.IGNORECASE)]
