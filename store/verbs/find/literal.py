"""The longest literal in every match of a regular expression, for a search by memmem."""

from __future__ import annotations

import re

_TOKEN = re.compile(rb"\\[dDwWsSbBAZ]|\\[^0-9A-Za-z]|[*+?]|\{\d*,?\d*\}|[.^$]|[^\\|()\[\]{}]", re.DOTALL)
_QUANTIFIER = re.compile(rb"[*+?{].*", re.DOTALL)
_SPECIAL = re.compile(rb"\\.|[.^$]", re.DOTALL)


def required_literal(pattern: bytes) -> bytes:
    """Find the longest literal of every match; empty for patterns with groups, sets or alternatives."""
    pieces, at = [b""], 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            return b""
        at = token.end()
        if _QUANTIFIER.fullmatch(token.group()):
            # The byte before a quantifier may be absent, or repeated.
            pieces[-1:] = [pieces[-1][:-1], b""]
        elif _SPECIAL.fullmatch(token.group()):
            pieces.append(b"")
        else:
            pieces[-1] += token.group()
    return max(pieces, key=len)
