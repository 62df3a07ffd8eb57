"""A job's run: its nodes, what its ranks find there, and how it ends."""
