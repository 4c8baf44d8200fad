"""Read the log of a DLedger member: entries with records, their index, term and checkpoint."""
