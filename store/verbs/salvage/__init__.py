"""Salvage every readable record: grade it by its evidence, and write it to a new place."""
