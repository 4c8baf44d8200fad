"""Bytes on disk: preallocated files seen as one address space. Nothing here knows what a message is."""
