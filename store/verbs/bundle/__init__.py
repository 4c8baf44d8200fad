"""bundle: a store without the bodies of its messages, to hand on."""
