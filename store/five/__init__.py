"""Read what only a 5.x broker leaves on its disk; nothing here is imported for a 4.x store."""
