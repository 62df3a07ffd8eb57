"""A home in which worldsize has run before: the agent's bundle, which takes longer to make than to run, is there."""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import cache

from worldsize.snapshot.agent_bundle import ensure_agent_bundle


@cache
def _kept() -> tempfile.TemporaryDirectory[str]:
    """Holds the bundle, and goes with this process."""
    folder = tempfile.TemporaryDirectory()
    ensure_agent_bundle(folder.name)
    return folder


def prepare_home(home: str) -> None:
    """Makes `home`, with modes as a first run would. What a first run does is tested on local nodes."""
    for folder in (home, os.path.join(home, "cache")):
        os.mkdir(folder, 0o700)
    kept = _kept().name
    for name in os.listdir(kept):
        path = os.path.join(home, "cache", name)
        shutil.copyfile(os.path.join(kept, name), path)
        os.chmod(path, 0o600)
