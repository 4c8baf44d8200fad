"""Counters of a live store: puts and gets, their times, topics and groups. They end with the process."""
