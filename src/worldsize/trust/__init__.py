"""Whom we believe: which directories are this user's alone, which configuration counts, which server may be asked.

Everything that executes what it finds on disk, deletes there, or sends a secret somewhere asks here first.
Standard library only: the node's side asks, too.
"""
