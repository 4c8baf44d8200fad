"""The commit log: bytes to records, and the one walk over them."""
