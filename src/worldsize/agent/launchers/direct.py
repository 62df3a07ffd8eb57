"""`launcher: direct`: each rank is a process that the agent itself starts."""

from __future__ import annotations

from worldsize.agent.launchers.base import Launcher


class DirectLauncher(Launcher):
    """The agent itself, which starts each rank as a process of its own."""


LAUNCHER = DirectLauncher()
