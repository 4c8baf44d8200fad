"""Formats: what the bytes mean. Pure functions and values; nothing here opens a file."""
