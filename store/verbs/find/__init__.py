"""find: the places of a message and its later copies, by key, id, text, body or condition."""
