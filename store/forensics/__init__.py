"""Forensics: reads stores and never writes to them.

State of a store, timeline, lag of the consumers, digests, differences between two stores, salvage.
"""
