"""Changes to a store: planned, shown, applied in a crash-safe order, kept in quarantine, undone."""
