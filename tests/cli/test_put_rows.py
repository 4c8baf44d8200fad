"""What a put says of its rows: the verdict, the exit code, and each warning once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from rmqctl import put_lines
from rmqctl.exit_codes import FINDINGS, IO_ERROR, OK
from rmqctl.put_lines import LinePut
from rmqctl.put_rows import NO_SEGMENT, exit_code, result_of, say_refused_topics, say_too_long


class Said:
    """A session that notes what is said, and how."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []

    def __getattr__(self, how: str) -> Any:
        return lambda text: self.said.append((how, text))


def row(status: str, **more: str) -> dict[str, Any]:
    return {"status": status, "topic": "T"} | more


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        ([], OK),
        (["PUT_OK"], OK),
        (["PUT_OK", "FLUSH_DISK_TIMEOUT"], FINDINGS),
        (["MESSAGE_ILLEGAL"], FINDINGS),
        (["PUT_OK", NO_SEGMENT, "MESSAGE_ILLEGAL"], IO_ERROR),
    ],
)
def test_a_segment_that_could_not_be_made_is_the_disks_fault(statuses: list[str], code: int) -> None:
    assert exit_code(statuses) == code


@pytest.mark.parametrize(
    ("given", "verdict", "code", "said"),
    [
        (row("PUT_OK"), "stored", OK, []),
        (row("MESSAGE_ILLEGAL", reason="too long"), "refused: too long (MESSAGE_ILLEGAL)", FINDINGS, []),
        (row("FLUSH_DISK_TIMEOUT"), "not stored as given: FLUSH_DISK_TIMEOUT", FINDINGS, []),
        (row(NO_SEGMENT, reason="full"), f"refused: full ({NO_SEGMENT})", IO_ERROR, [("fail", "full")]),
        (
            row("MESSAGE_ILLEGAL", reason="127 in 4.x"),
            "refused: 127 in 4.x (MESSAGE_ILLEGAL)",
            FINDINGS,
            [("note", "--compat 5.3 makes a new store that takes longer topics")],
        ),
    ],
)
def test_a_message_is_stored_refused_or_not_stored_as_given(
    given: Any, verdict: str, code: int, said: list[tuple[str, str]]
) -> None:
    session = Said()
    result = result_of(cast(Any, session), given)
    assert (result.verdict, result.exit_code, session.said) == (verdict, code, said)
    assert ("reason" in (result.tables[0].columns or ())) == ("reason" in given)


def test_topics_that_a_broker_refuses_are_warned_of_in_their_order() -> None:
    session = Said()
    say_refused_topics(cast(Any, session), {"z z", "good", "a!"})
    assert [(how, text.partition(":")[0]) for how, text in session.said] == [
        ("warn", "a broker refuses the topic 'a!' from producers"),
        ("warn", "a broker refuses the topic 'z z' from producers"),
    ]


@pytest.mark.parametrize(("reasons", "count"), [([], 0), (["torn"], 0), (["torn", "in 4.x", "in 4.x"], 1)])
def test_the_option_for_longer_topics_is_noted_once(reasons: list[str], count: int) -> None:
    session = Said()
    say_too_long(cast(Any, session), [cast(Any, row("MESSAGE_ILLEGAL", reason=reason)) for reason in reasons])
    assert len(session.said) == count


def test_a_segment_that_could_not_be_made_is_said_once_for_many_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row("PUT_OK"), row(NO_SEGMENT, reason="full"), row(NO_SEGMENT, reason="full still")]
    monkeypatch.setattr(put_lines, "rows_of_columns", lambda *given: iter(rows))
    session, put = Said(), cast(Any, object.__new__(LinePut))
    put._session, put._form, put._said_no_segment = session, SimpleNamespace(as_stored=True), False
    assert [list(put._rows(None, None, ())) for _ in range(2)] == [rows, rows]
    assert session.said == [("fail", "full")]
