"""Forensics: what is on the disk, where a message is, who has not consumed, and how two stores differ. Reads only."""
