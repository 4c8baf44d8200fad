"""Salvage: every record that can still be read, graded by what proves it, and written where it is safe."""
