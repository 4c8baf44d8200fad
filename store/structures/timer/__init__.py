"""Read timer messages (5.x): the wheel, its log, and the state of each message."""
