"""The kinds of findings on delayed messages."""

from __future__ import annotations

from store.structures.findings import Rank, kind

UNDELIVERABLE = kind("undeliverable-message", "a delayed message names no queue to deliver it to", Rank.LOSS)
