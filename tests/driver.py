"""The command line as tests drive it: that of the conformance suite."""

from worldsize_conformance.driver import SOURCE, Cli, Result, all_up, heard, unfolded, wait_for

__all__ = ["SOURCE", "Cli", "Result", "all_up", "heard", "unfolded", "wait_for"]
