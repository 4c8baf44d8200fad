"""Which member of a DLedger group a store's log is, by its settings and folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.errors import BadRequest
from store.files.filesystem import Filesystem
from store.files.segment_folders import MEMBER_PATHS, find_member

ON = {"enableDLegerCommitLog": "true"}
ELSEWHERE = {MEMBER_PATHS: "/elsewhere"}


@pytest.mark.parametrize(
    ("folders", "settings", "member"),
    [
        ([], {}, None),
        ([], ON, None),
        (["dledger-n0/data"], {}, "dledger-n0"),
        (["dledger-n0/data"], ON, "dledger-n0"),
        (["dledger-n0/data"], {"enableDLegerCommitLog": " False "}, None),
        (["dledger-n0/data"], {"dLegerSelfId": "n0"}, "dledger-n0"),
        (["dledger-n0/data"], {"dLegerSelfId": "n1"}, None),
        (["dledger-n0/data", "dledger-n1/data"], {"dLegerSelfId": "n1"}, "dledger-n1"),
        (["dledger-n0/data", "dledger-n1/data"], {"dLegerSelfId": " n1 "}, "dledger-n1"),
        (["other"], ON, None),
        (["dledger-n0"], ON, None),
        (["dledger-n0"], ON | ELSEWHERE, "dledger-n0"),
        (["dledger-n0"], ELSEWHERE, "dledger-n0"),
        ([], ELSEWHERE, None),
        ([], ON | ELSEWHERE, "dledger-n0"),
        ([], ON | ELSEWHERE | {"dLegerSelfId": "n2"}, "dledger-n2"),
        (["dledger-n0"], ON | ELSEWHERE | {"dLegerSelfId": "n2"}, None),
        ([], ON | {MEMBER_PATHS: " "}, None),
    ],
)
def test_the_member_is_the_one_that_is_named_or_the_only_one(
    folders: list[str], settings: dict[str, str], member: str | None, tmp_path: Path
) -> None:
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)
    assert find_member(tmp_path, settings, Filesystem()) == (None if member is None else tmp_path / member)


def test_several_members_of_which_none_is_named_are_refused(tmp_path: Path) -> None:
    for name in ("dledger-n0", "dledger-n1"):
        (tmp_path / name / "data").mkdir(parents=True)
    with pytest.raises(BadRequest, match=r": the logs of several members of a DLedger group: dledger-n0, dledger-n1$"):
        find_member(tmp_path, {}, Filesystem())
