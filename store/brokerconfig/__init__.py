"""Reads the broker's own tables under config/ as a broker would, and reviews them against the store."""
