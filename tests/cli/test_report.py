"""The report is one page that holds all it needs; a browser shows it in light and in dark."""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rmqctl.commands import report
from store import Message, open_store
from store.broker_line import LINE_4_9
from tests.cli.running import rmqctl
from tests.conftest import CopyOf
from tests.support.golden import golden
from tests.support.snapshots import snapshot
from tests.support.stores import SMALL, make_store

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1100,2000",
]
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


class Page(HTMLParser):
    """What of a page matters here: section ids, heading texts, and everything that could make a request."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.sections: list[str] = []
        self.open: list[str] = []
        self.requests: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "section":
            self.sections.append(values.get("id") or "")
        for name in ("src", "srcset", "href", "xlink:href", "data", "action"):
            target = values.get(name)
            if target and not target.startswith("#"):
                self.requests.append(f"{tag} {name}={target}")


def write_report(root: Path, target: Path, code: int = 0) -> str:
    run = rmqctl("--format", "json", "report", "--html", target, store=root)
    assert run.code == code, run.err
    text = target.read_text("utf-8")
    assert run.json["size_bytes"] == len(text.encode())
    return text


def test_the_title_has_the_absolute_path_without_dots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_store(tmp_path / "broker" / "store")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    text = write_report(Path("..", "broker", "store"), tmp_path / "page.html")
    assert f"<title>RocketMQ 4.9 store {root} on {platform.node()}</title>" in text


def test_a_damaged_store_has_every_section_and_requests_nothing(copy_of: CopyOf, tmp_path: Path) -> None:
    _, root = copy_of("corrupt-mid")
    (root / "config").mkdir(exist_ok=True)
    (root / "config/consumerOffset.json").write_text(json.dumps({"offsetTable": {"TopicA@G": {"0": 1}}}))
    before = snapshot(root)
    text = write_report(root, tmp_path / "report.html", 1)
    page = Page(text)
    wanted = [
        "facts",
        "findings",
        "start-4.9-5.3",
        "start-5.5",
        "usage",
        "timeline",
        "queues",
        "lag",
        "config",
        "settings",
    ]
    assert page.sections == wanted
    assert page.requests == []
    assert not re.search(r"url\(|@import", text)
    assert "a 4.9 broker loses messages" in text
    assert f"<h1>RocketMQ 4.9 store {root} on {platform.node()}</h1>" in text
    verdict = "250 messages would be lost on restart, 249 can be salvaged. A 4.9 store with 450 messages in 4 topics."
    assert f'<p class="verdict rank-2">{verdict}</p>' in text
    assert rmqctl("doctor", store=root).out.startswith("250 messages would be lost on restart, 249 can be salvaged; ")
    charts = re.findall(r'<div class="(wide|phone)"><svg [^>]*viewBox="0 0 (\d+) ', text)
    assert charts == [("wide", "900"), ("phone", "360")] * 4
    assert snapshot(root) == before


def test_a_store_of_5_3_is_judged_by_its_own_broker(tmp_path: Path) -> None:
    text = write_report(golden("normal5").store, tmp_path / "report.html")
    assert [one for one in Page(text).sections if one.startswith("start")] == ["start-5.3-5.5", "start-4.9"]
    assert '<p class="verdict rank-0">A sound 5.3 store with 450 messages in 4 topics.</p>' in text
    assert "<h2>What a broker of 4.9 would do</h2>" in text


def test_names_from_the_log_cannot_become_markup(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with open_store(root, settings=SMALL, read_only=False) as store:
        store.put(Message.of("<script>alert(1)<%script>", b"x"))
    text = write_report(root, tmp_path / "report.html")
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


@pytest.mark.turns(3)
def test_a_store_with_many_queues_stays_below_the_size(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 700, queues=700)
    text = write_report(root, tmp_path / "report.html")
    assert "200 more rows are not on this page" in text
    assert len(text) < 3 << 20


@pytest.mark.turns(3)
def test_the_page_has_whole_commands_whole_numbers_and_no_moment_that_is_none(tmp_path: Path) -> None:
    root = make_store(tmp_path / "store", 1200)
    (root / "config").mkdir()
    offsets = {"T@ahead": {"0": 5000}, "T@done": {"1": 400}}
    (root / "config/consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}))
    text = write_report(root, tmp_path / "report.html", 1)
    reset = "config reset-offsets ahead --topic T --queue 0 --to last"
    assert f"{root} {reset}" in re.sub("<[^>]*>", "", text)
    assert "1,200 messages" in text
    assert "Offset outside of its queue" in text
    assert not re.search("Pygal|19(69|70)-", text)


@pytest.mark.parametrize("target", ["nowhere/report.html", "."])
def test_a_target_that_is_no_file_is_a_usage_error(tmp_path: Path, target: str) -> None:
    root = make_store(tmp_path / "store", 3)
    assert rmqctl("report", "--html", tmp_path / target, store=root).code == 2


@pytest.mark.turns(4)
@needs_chromium
def test_a_browser_sorts_filters_and_shows_it_in_light_and_dark(copy_of: CopyOf, tmp_path: Path) -> None:
    _, root = copy_of("corrupt-mid")
    write_report(root, tmp_path / "report.html", 1)
    shots = [screenshot(tmp_path, name, f"--blink-settings=preferredColorScheme={name}") for name in ("0", "1")]
    assert min(map(len, shots)) > 20_000
    assert shots[0] != shots[1]
    driven = (tmp_path / "report.html").read_text("utf-8").replace("</body>", DRIVER)
    (tmp_path / "driven.html").write_text(driven, "utf-8")
    dom = chromium(tmp_path, "--dump-dom", f"file://{tmp_path}/driven.html").decode()
    assert "<title>sorted filtered</title>" in dom


@pytest.mark.turns(3)
@needs_chromium
def test_no_command_and_no_cell_is_off_the_screen_of_a_phone(copy_of: CopyOf, tmp_path: Path) -> None:
    _, root = copy_of("corrupt-mid")
    write_report(root, tmp_path / "report.html", 1)
    page = (tmp_path / "report.html").read_text("utf-8").replace("</body>", EDGES)
    # No window of Chromium is narrower than 500; a frame is.
    frame = f"<iframe width=390 height=800 srcdoc='{page.replace(chr(39), '&#39;')}'></iframe>"
    (tmp_path / "phone.html").write_text(frame, "utf-8")
    dom = chromium(tmp_path, "--dump-dom", f"file://{tmp_path}/phone.html").decode()
    [(commands, of_commands, cells, of_cells)] = re.findall(r"<title>(\d+) of (\d+); (\d+) of (\d+)</title>", dom)
    assert (commands, cells) == (of_commands, of_cells)
    assert (int(commands), int(cells) > 200) == (3, True)


@pytest.mark.turns(3)
@needs_chromium
def test_paper_keeps_the_colour_of_the_verdict_and_no_heading_at_a_page_s_end(copy_of: CopyOf, tmp_path: Path) -> None:
    _, root = copy_of("corrupt-mid")
    write_report(root, tmp_path / "report.html", 1)
    printed = (tmp_path / "report.html").read_text("utf-8").replace("</body>", PRINTED)
    (tmp_path / "printed.html").write_text(printed, "utf-8")
    dom = chromium(tmp_path, "--dump-dom", f"file://{tmp_path}/printed.html").decode()
    assert "<title>rgb(198, 40, 40) 5px; avoid avoid; avoid avoid; avoid avoid</title>" in dom


EDGES = """<script>
const commands = [...document.querySelectorAll("td code")];
const cells = [...document.querySelectorAll("td")];
const seen = all => all.filter(c => c.getBoundingClientRect().width && c.getBoundingClientRect().right <= 390).length;
parent.document.title = `${seen(commands)} of ${commands.length}; ${seen(cells)} of ${cells.length}`;
</script></body>"""
PRINTED = """<script>
for (const rule of document.styleSheets[0].cssRules)
  if (rule.media && rule.media.mediaText === "print") rule.media.mediaText = "all";
const verdict = getComputedStyle(document.querySelector(".verdict"));
const breaks = name => getComputedStyle(document.querySelector(`section ${name}`));
const kept = ["h2", "h3", "p"].map(name => `${breaks(name).breakAfter} ${breaks(name).breakInside}`);
document.title = [`${verdict.borderLeftColor} ${verdict.borderLeftWidth}`, ...kept].join("; ");
</script></body>"""
DRIVER = """<script>
const done = [];
const table = document.querySelector("#usage table");
const cells = () => [...table.tBodies[0].rows].map(r => +r.cells[1].dataset.k);
table.tHead.rows[0].cells[1].click();
if (cells().every((v, i, a) => !i || a[i - 1] <= v)) done.push("sorted");
const field = document.querySelector("#queues input");
field.value = "TopicB"; field.dispatchEvent(new Event("input"));
const shown = [...document.querySelectorAll("#queues tbody tr")].filter(r => !r.hidden);
if (shown.length === 4) done.push("filtered");
document.title = done.join(" ");
</script></body>"""


def screenshot(folder: Path, name: str, *flags: str) -> bytes:
    target = folder / f"{name}.png"
    chromium(folder, *flags, f"--screenshot={target}", f"file://{folder}/report.html")
    return target.read_bytes()


def chromium(folder: Path, *arguments: str) -> bytes:
    """Runs the browser once, with a profile of its own; gives its stdout."""
    assert CHROMIUM is not None
    profile = f"--user-data-dir={folder / f'profile-{len(list(folder.iterdir()))}'}"
    run = subprocess.run([CHROMIUM, *FLAGS, profile, *arguments], capture_output=True, timeout=180, check=True)
    return run.stdout


def test_what_a_terminal_or_a_browser_obeys_is_escaped_wherever_a_name_stands(tmp_path: Path) -> None:
    hostile = "T\x07\x1b[2J\x9b\u202e<b>&"
    root = tmp_path / f"s{hostile.replace('/', '')}"
    with open_store(root, read_only=False, settings=SMALL) as store:
        for number in range(3):
            store.put(Message.of(hostile, f"body {number}", keys=[hostile]))
    (root / "config").mkdir()
    offsets = {f"{hostile}@{hostile}": {"0": 1}, "Unknown@G\x1b": {"0": 9}}
    (root / "config/consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}))
    (root / f"unknown{hostile}").touch()
    text = write_report(root, tmp_path / "report.html", 1)
    assert re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|<b>", text) == []
    assert text.count(r"T\x07\x1b[2J\x9b\u202e&lt;b&gt;&amp;") >= 3


@pytest.mark.parametrize(
    ("first_ms", "last_ms", "abort_ms", "shown"),
    [
        (-1, -1, -1, (None, None, True)),
        (0, 0, -1, (0, 0, True)),
        (5, 6, 0, (5, 6, False)),
        (5, 6, 7, (5, 6, False)),
    ],
)
def test_a_moment_of_0_is_one_and_a_marker_tells_of_a_crash(
    first_ms: int, last_ms: int, abort_ms: int, shown: tuple[int | None, int | None, bool]
) -> None:
    log = SimpleNamespace(segment_count=1, size_bytes=2, end=3, first_ms=first_ms, last_ms=last_ms)
    info = SimpleNamespace(
        log=log, line=LINE_4_9, abort_ms=abort_ms, holder=None, queues=[1], index=SimpleNamespace(file_count=4),
        free_bytes=5,
    )  # fmt: skip
    facts = report._facts(cast(Any, SimpleNamespace(info=info)), 9)
    assert (facts["first_message_ms"], facts["last_message_ms"], facts["shut down"]) == shown
    assert [facts[name] for name in ("written_ms", "segments", "log_bytes", "log end", "queues", "index files",
                                     "free_bytes", "lock held by")] == [9, 1, 2, 3, 1, 4, 5, "no process"]  # fmt: skip
