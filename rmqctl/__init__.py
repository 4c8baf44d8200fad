"""rmqctl: the command line of the message store.

A command parses, makes one engine call, and prints the result.
"""
