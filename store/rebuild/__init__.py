"""Consume queues and index built from the log, into a staging folder."""
