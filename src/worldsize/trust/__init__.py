"""Decisions about what may be relied on: which directories only this user can change, and which configuration files
count.

Code that executes files, deletes files, or sends a secret because of what is on disk checks here first. Standard
library only: it travels to the nodes inside agent.pyz.
"""
