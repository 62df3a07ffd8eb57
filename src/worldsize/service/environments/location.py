"""Where environments lie: the directory of a compute."""

from __future__ import annotations

import os

from worldsize.jobspec.config.config import ComputeSettings, Config
from worldsize.trust.directories import require_reliable_directory


def envs_dir(config: Config, settings: ComputeSettings) -> str:
    """Where environments are built for a compute: where its nodes see them. StorageError where somebody else could
    change it."""
    return require_reliable_directory(_envs_dir(config, settings), make=False)


def _envs_dir(config: Config, settings: ComputeSettings) -> str:
    if settings.envs_dir or config.envs_dir:
        return settings.envs_dir or config.envs_dir or ""
    if settings.own_runs_dir:
        return os.path.join(settings.own_runs_dir, f".envs-{os.getuid()}")
    return os.path.join(config.home, "envs")
