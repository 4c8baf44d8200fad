"""The possible starts of segments in a copied log."""

from __future__ import annotations

from store.errors import BadRequest


def require_segment_start(log_offset: int, segment_size: int) -> None:
    """Raise BadRequest unless a segment of that size can begin at `log_offset`."""
    if log_offset % segment_size:
        raise BadRequest(
            f"the master's segment begins at {log_offset}, no multiple of {segment_size}", code="segment-size"
        )
