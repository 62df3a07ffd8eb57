"""Directories of environments and data for a compute."""

from __future__ import annotations

import os

from worldsize.jobspec.config.config import ComputeSettings, Config
from worldsize.trust.directories import require_reliable_directory


def envs_dir(config: Config, settings: ComputeSettings) -> str:
    """Return the directory in which worldsize builds environments for the compute `settings`, which the compute's nodes
    see. Raise StorageError if another user could change it."""
    return shared_directory(config, settings, settings.envs_dir or config.envs_dir, "envs")


def shared_directory(config: Config, settings: ComputeSettings, said: str | None, kind: str) -> str:
    """Return the directory for files that runs of a compute share: `said`, the configured one, else a directory named
    after `kind` ("envs", …) where the compute's runs are. Raise StorageError if another user could change it."""
    own = None if said else settings.own_runs_dir
    path = said or (os.path.join(own, f".{kind}-{os.getuid()}") if own else os.path.join(config.home, kind))
    return require_reliable_directory(path, make=False)
