"""The command line as tests drive it: that of the conformance suite."""

from worldsize_conformance.driver import (
    SOURCE,
    Cli,
    Result,
    agent_bundle,
    all_up,
    heard,
    lend_bundle,
    unfolded,
    wait_for,
)

__all__ = ["SOURCE", "Cli", "Result", "agent_bundle", "all_up", "heard", "lend_bundle", "unfolded", "wait_for"]
