"""Counters of a live store, in memory: puts and gets, their times, topics and groups."""
