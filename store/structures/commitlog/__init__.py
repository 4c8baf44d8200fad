"""The commit log: appending, reading and scanning its records."""
