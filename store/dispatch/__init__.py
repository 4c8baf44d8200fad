"""Dispatch: the log's records, handed to everything that is built from them."""
