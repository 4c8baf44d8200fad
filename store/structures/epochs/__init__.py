"""The epochs and the identity of a broker with a controller (epochFileCheckpoint, brokerIdentity)."""
