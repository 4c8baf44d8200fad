"""One connection of the control socket: a call, its answer, and the wait for the next one."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from store.engine.serving import server as servers
from store.engine.serving.frames import Frame
from store.engine.serving.server import ControlServer
from store.errors import BadRequest


def test_the_wait_for_the_next_call_begins_when_the_answer_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    @contextmanager
    def working() -> Any:
        calls.append("works")
        yield
        calls.append("has worked")

    parts = iter([(b"head", b"more"), None])
    monkeypatch.setattr(servers, "receive_parts", lambda connection: next(parts))
    monkeypatch.setattr(servers, "send_frame", lambda connection, frame: calls.append((connection, frame)))
    server: Any = object.__new__(ControlServer)
    server._answer = lambda *given: given
    server._serve(SimpleNamespace(connection="it", working=working, note_request=lambda: calls.append("waits")))
    assert calls == ["works", "has worked", ("it", (b"head", b"more")), "waits"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            BadRequest("no", file="f", offset=5, hint="h", code="c", subject=("s",)),
            {"class": "BadRequest", "reason": "no", "file": "f", "offset": 5, "hint": "h", "code": "c",
             "subject": ["s"]},
        ),
        (
            BadRequest("no"),
            {"class": "BadRequest", "reason": "no", "file": None, "offset": None, "hint": None,
             "code": BadRequest("no").code, "subject": []},
        ),
        (ZeroDivisionError("x"), {"class": "StoreError",
                                  "reason": "a defect in the served store: ZeroDivisionError('x')"}),
    ],
)  # fmt: skip
def test_an_error_of_a_call_is_its_answer(
    error: Exception, told: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(frame: object) -> Frame:
        raise error

    monkeypatch.setattr(servers, "parse_frame", lambda head, attachment: Frame({}))
    server: Any = object.__new__(ControlServer)
    server._calls = SimpleNamespace(answer=fail)
    assert server._answer(b"", b"").head == {"error": told}
