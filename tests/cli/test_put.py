"""The body of put: where it comes from, and how long it may be."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import typer

from rmqctl.commands.put import _parse_properties, _read_body, _tell_of_compaction
from store import structures
from tests.support.sessions import session

MOST = 268_435_456


@pytest.mark.parametrize("size", [0, MOST, MOST + 1, MOST + 100])
def test_a_body_of_a_pipe_is_read_up_to_256_mib(size: int) -> None:
    one = session()
    one.environment = cast(Any, SimpleNamespace(stdin=SimpleNamespace(read=lambda most: range(min(size, most)))))
    if size <= MOST:
        assert len(_read_body(one, None, "-")) == size
        return
    with pytest.raises(typer.BadParameter, match="- has more than 268435456 bytes"):
        _read_body(one, None, "-")


def test_a_body_is_that_of_the_file_or_the_word(tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"\xffx")
    assert _read_body(session(), None, str(tmp_path / "body")) == b"\xffx"
    assert [_read_body(session(), body, None) for body in ("word", "", "\udcff")] == [b"word", b"", b"\xff"]
    with pytest.raises(typer.BadParameter, match="give a BODY, --body-file or --input"):
        _read_body(session(), None, None)


@pytest.mark.parametrize(
    ("text", "pair"), [("a=b", ("a", "b")), ("a=", ("a", "")), ("a=b=c", ("a", "b=c")), ("a", None), ("=b", None)]
)
def test_a_property_is_a_name_and_a_value(text: str, pair: tuple[str, str] | None) -> None:
    if pair is None:
        with pytest.raises(typer.BadParameter, match="is not NAME=VALUE"):
            _parse_properties([text])
    else:
        assert _parse_properties([text]) == dict([pair])


def test_a_property_is_given_once() -> None:
    assert _parse_properties(["a=1", "b=1"]) == {"a": "1", "b": "1"}
    with pytest.raises(typer.BadParameter, match="a property is given twice"):
        _parse_properties(["a=1", "b=1", "a=1"])


@pytest.mark.parametrize(("topic", "named"), [(None, ["A", "B"]), ("A", ["A"]), ("B", ["B"]), ("C", [])])
def test_a_put_warns_of_the_compacted_topics_among_its_own(
    topic: str | None, named: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(structures, "topic_attribute", lambda config, fs, name: name == "cleanup.policy")
    monkeypatch.setattr(structures, "compacted_topics", lambda config, fs: {"B", "A"})
    session: Any = SimpleNamespace(store=SimpleNamespace(root=Path("s")), warn=told.append)
    _tell_of_compaction(session, topic)
    assert [one.partition(" compaction log of ")[2].partition(", which")[0] for one in told] == (
        [", ".join(named)] if named else []
    )
