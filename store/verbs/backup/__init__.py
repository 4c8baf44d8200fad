"""Backups of a store: create, verify, list, prune and compare them, and restore one to a moment.

    create    tables first, the log after, so that no offset is ahead of the log; the manifest last
    restore   a new store: the log up to a moment, queues and index built from it, tables fitted to it

The files of a folder of backups: store.formats.backup_manifest. Reading them: store.files.backup_files.
"""
