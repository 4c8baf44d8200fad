"""The services of a writable store: dispatch, group commit, timed flush and commit, disk check."""
