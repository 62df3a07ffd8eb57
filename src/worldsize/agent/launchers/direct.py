"""The `launcher: direct`: the agent itself starts each rank as a process."""

from __future__ import annotations

from worldsize.agent.launchers.base import Launcher


class DirectLauncher(Launcher):
    """The launcher that has the agent itself start each rank as a separate process."""


LAUNCHER = DirectLauncher()
