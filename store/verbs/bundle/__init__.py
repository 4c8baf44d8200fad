"""bundle: a copy of a store without the bodies of its messages, for others."""
