"""Which attempt of a run counts: the latest. A scheduler starts a run again after a preemption or a failed node."""

from __future__ import annotations

import os

from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import Observation

_SLACK = 5.0
"""Seconds by which the clocks of a scheduler and of a file server may differ."""


def observed_attempt(paths: RunPaths, observation: Observation) -> RunPaths:
    """The paths of the attempt that the compute speaks of; `paths` are those of the latest that has begun.

    Where restarts are no attempts, since only those count that an agent began, it is the next one when the native job
    waits again, and when it was put back and started after the latest had begun.
    """
    if observation.counted:
        return RunPaths(paths.root, observation.restarts) if observation.restarts > paths.attempt else paths
    try:
        began = os.stat(paths.events_dir).st_mtime if os.listdir(paths.events_dir) else None
    except OSError:
        began = None
    if began is None:
        return paths
    again = observation.restarts > paths.attempt and (observation.started or 0.0) - _SLACK > began
    return RunPaths(paths.root, paths.attempt + 1) if again or observation.phase == "queued" else paths
