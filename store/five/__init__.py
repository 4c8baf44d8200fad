"""Read the structures of a 5.x broker; nothing here is imported for a 4.x store."""
