"""Bytes on disk: preallocated files as one address space, without knowledge of messages."""
