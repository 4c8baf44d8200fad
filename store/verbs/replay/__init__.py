"""Replay stored messages into a live cluster, as new messages."""
