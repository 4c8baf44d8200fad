"""The kinds of findings on the timer."""

from __future__ import annotations

from store.structures.findings import Rank, kind

TIMER_FILES = kind("timer-files", "a file of the timer is missing, or has a wrong length", Rank.LOSS)
TIMER_WHEEL = kind("timer-wheel", "a slot of the timer wheel does not lead to its messages", Rank.LOSS)
TIMER_LOG = kind("timer-log", "an entry of the timer log contradicts the previous one, its slot, or its record")
TIMER_STALE = kind("timer-stale", "the timer is ahead of the log: a truncation of the log leaves it so", Rank.LOSS)
TIMER_AGAIN = kind("timer-again", "the next start delivers or rolls timer messages once more")
TIMELINE_AGAIN = kind("timeline-again", "the database of timers lacks what was done: the next start repeats messages")
