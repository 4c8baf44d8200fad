"""Sections of the report: text, charts and tables, from one examination, a timeline and a query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmqctl.advice import command_for, step_of
from rmqctl.hints import hint_for, with_hint
from rmqctl.report.charts import bars, columns
from rmqctl.show import count, show_bytes, show_value, words

if TYPE_CHECKING:
    from markupsafe import Markup

    from store.verbs import Diagnosis, Examination, QueueLag, Timeline
    from store.verbs.recover import SimulatedStart

MOST_ROWS = 500
"""Rows of one table on the page; a line below it has the number of rows left out."""
LONG_WORD = 24
"""A column is not made wide enough for a word with more characters."""
MOMENT_LETTERS = {"second": 19, "minute": 16, "hour": 13, "day": 10}
"""Characters of a time that name a bucket of the timeline."""


@dataclass(slots=True)
class Cell:
    """A value as text for people, and its sort key."""

    text: str
    key: str
    is_number: bool
    is_command: bool = False

    @property
    def is_long(self) -> bool:
        """Whether one of its words may be broken."""
        return any(len(word) > LONG_WORD for word in self.text.split())


@dataclass(slots=True)
class PageTable:
    """A table of the page."""

    title: str
    headings: list[str]
    rows: list[list[Cell]]
    left_out: int = 0

    def is_number(self, column: int) -> bool:
        """Return whether a column holds numbers."""
        return any(row[column].is_number for row in self.rows)


@dataclass(slots=True)
class Section:
    """A part of the page."""

    id: str
    title: str
    text: str = ""
    charts: list[Markup] = field(default_factory=list)
    tables: list[PageTable] = field(default_factory=list)


@dataclass(slots=True)
class Usage:
    """Messages and bytes of one topic."""

    topic: str
    message_count: int
    size_bytes: int


def table_of(title: str, rows: Iterable[Mapping[str, object]], names: Sequence[str] | None = None) -> PageTable:
    """Return a table of the first MOST_ROWS rows, with headings from their JSON names."""
    everything = list(rows)
    shown = everything[:MOST_ROWS]
    names = names or list(shown[0] if shown else ())
    cells = [[_cell(name, row.get(name)) for name in names] for row in shown]
    return PageTable(title, [words(name) for name in names], cells, len(everything) - len(shown))


def _cell(name: str, value: Any) -> Cell:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return Cell(show_cell(name, value), str(value if value is not None else ""), is_number, name == "command")


def show_cell(name: str, value: object) -> str:
    """Return a value as of `show_value`, with commas in whole numbers."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and not name.endswith(("_ms", "_bytes"))
    return f"{value:,}" if is_count else show_value(name, value)


def sections_of(
    found: Examination, usage: list[Usage], timeline: Timeline, settings: list[dict[str, object]]
) -> Iterator[Section]:
    """Yield the sections in the order of the page."""
    yield _findings(found)
    yield from _starts(found.starts)
    yield _usage(usage)
    yield _timeline(timeline)
    yield _queues(found)
    if found.lag is not None:
        yield _lag(found)
    yield _config(found)
    yield Section("settings", "Settings", tables=[table_of("Not at their default", settings)])


def _findings(found: Examination) -> Section:
    rows = [_finding(one, found.info.layout.root) for one in found.diagnoses]
    root = found.info.layout.root
    each = [{**asdict(one), "file": one.file.removeprefix(f"{root}/")} for one in found.findings]
    text = (
        "Nothing is wrong." if not rows else "The worst first. Rank 1: a broker does not start. 2: messages are lost, "
    )
    text += "" if not rows else "or will be. 3: consumers or queries get wrong results. 4: good to know."
    tables = [table_of("Findings", rows)] if rows else []
    return Section(
        "findings", "What is wrong", text, tables=[*tables, *([table_of("Each place", each)] if each else [])]
    )


def _finding(one: Diagnosis, root: Path) -> dict[str, object]:
    command = command_for(one.code, one.subject)
    return {
        "rank": int(one.rank),
        "what": one.what,
        "count": one.count,
        "detail": with_hint(one.detail, one.code, one.subject),
        "command": f"rmqctl --store {root} {command}" if command else None,
        "cost": step_of(command).cost if command else None,
        "can_be_undone": step_of(command).can_be_undone if command else None,
    }


def _starts(starts: Iterable[SimulatedStart]) -> Iterator[Section]:
    """Yield a section for each start; broker lines with the same outcome share one."""
    alike: list[tuple[list[str], Section]] = []
    for start in starts:
        section = _start(start)
        lines = next((lines for lines, one in alike if (one.text, one.tables) == (section.text, section.tables)), None)
        if lines is None:
            alike.append(([start.compat], section))
        else:
            lines.append(start.compat)
    for lines, section in alike:
        section.id = f"start-{'-'.join(lines)}"
        section.title = f"What a broker of {' or '.join(lines)} would do"
        yield section


def _start(start: SimulatedStart) -> Section:
    if not start.starts:
        return Section("", "", f"It does not start: {with_hint(start.reason, *start.blocker)}.")
    lost = start.lost
    text = f"It starts ({start.mode} recovery from segment {start.start_segment}). The log ends at {start.log_end:,}: "
    text += f"{start.cut_reason}. "
    text += f"{count(lost.messages, 'message')} lost, {lost.intact} of them intact." if lost.messages else ""
    changed = [{"file": one.file, "action": one.action, "size_bytes": one.size} for one in start.files]
    rows = [{**asdict(row), "unconsumed_by_group": row.unconsumed_by_group or None} for row in lost.queue_rows()]
    tables = [table_of("Lost", rows)] if rows else []
    traps = [{"name": t.code, "detail": t.detail, "remedy": hint_for(t.code, t.subject)} for t in start.traps]
    tables += [table_of("Traps", traps)] if traps else []
    tables += [table_of("Files that change", changed)] if changed else []
    return Section("", "", text, tables=tables)


def _usage(usage: list[Usage]) -> Section:
    by_size = sorted(usage, key=lambda one: -one.size_bytes)
    chart = [bars([(one.topic, one.size_bytes) for one in by_size], "Bytes by topic", show_bytes)] if usage else []
    return Section("usage", "Usage by topic", charts=chart, tables=[table_of("Topics", map(asdict, by_size))])


def _timeline(timeline: Timeline) -> Section:
    letters = MOMENT_LETTERS[timeline.unit]
    rows = [(show_value("start_ms", start)[:letters].replace("T", " "), count) for start, count, _ in timeline.rows()]
    jumps = [asdict(jump) for jump in timeline.jumps]
    tables = [table_of("Pauses and clock jumps", jumps)] if jumps else []
    text = f"Messages by {timeline.unit}, by store time (UTC)."
    return Section("timeline", "Timeline", text, [columns(rows, "Messages")] if rows else [], tables)


def _queues(found: Examination) -> Section:
    rows = [
        {
            "topic": queue.topic,
            "queue_id": queue.queue_id,
            "min_offset": queue.min_offset,
            "max_offset": queue.max_offset,
            "message_count": queue.max_offset - queue.min_offset,
        }
        for queue in found.info.queues
    ]
    depths: dict[str, int] = {}
    for queue in found.info.queues:
        depths[queue.topic] = depths.get(queue.topic, 0) + queue.max_offset - queue.min_offset
    ranked = sorted(depths.items(), key=lambda one: -one[1])
    charts = [bars(ranked, "Messages in queues")] if ranked else []
    return Section("queues", "Queue depth", charts=charts, tables=[table_of("Queues", rows)])


def _lag(found: Examination) -> Section:
    assert found.lag is not None
    rows = [_lag_row(row) for row in found.lag.by_queue()]
    by_group: dict[str, int] = {}
    for row in found.lag.queues:
        name = f"{row.group} · {row.topic}"
        by_group[name] = by_group.get(name, 0) + max(0, row.lag)
    ranked = sorted(((name, lag) for name, lag in by_group.items() if lag), key=lambda one: -one[1])
    text = "" if rows else "There are no consumer offsets in config/."
    if found.lag.never_consumed:
        text += f" Groups that never consumed: {', '.join(found.lag.never_consumed)}."
    charts = [bars(ranked, "Lag in messages")] if ranked else []
    return Section("lag", "Lag of consumer groups", text, charts, [table_of("Groups", rows)] if rows else [])


def _lag_row(row: QueueLag) -> dict[str, object]:
    return {
        "group": row.group,
        "topic": row.topic,
        "queue_id": row.queue_id,
        "state": row.state,
        "lag": row.lag,
        "lag_size_bytes": row.lag_bytes,
        "consumed_offset": row.consumed_offset,
        "max_offset": row.max_offset,
        "first_unconsumed_ms": row.first_unconsumed_ms if row.first_unconsumed_ms >= 0 else None,
    }


def _config(found: Examination) -> Section:
    files = found.config.files if found.config is not None else []
    rows = [{"file": one.name, "load": one.load.value, "main_state": one.main.state.value} for one in files]
    text = "" if rows else "There is no table under config/."
    return Section("config", "The broker's tables", text, tables=[table_of("Tables", rows)] if rows else [])
