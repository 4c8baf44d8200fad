"""The services of a store that is written to: dispatch, group commit, timed flush and commit, disk check."""
