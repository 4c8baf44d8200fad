"""dump: every field of every record, unit or entry of one file, with its place in the bytes."""
