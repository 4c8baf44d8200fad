"""Reads the state of the broker's services from a store: delayed messages and transactions."""
