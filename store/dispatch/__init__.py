"""Dispatch: the log's records, for everything that is built from them."""
