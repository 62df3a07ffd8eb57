"""Whose run it is: of another user's nothing is done, written or ended, whatever its files say."""

from __future__ import annotations

import os

from worldsize.plan.paths import RunPaths
from worldsize.trust.directories import foreign_danger


def why_foreign(paths: RunPaths) -> str | None:
    """Why the run is not to be taken for one of this user's own, by its directory, and its array's; None if it is."""
    array = os.path.dirname(paths.root) if "_" in paths.run_id else None
    return foreign_danger(paths.root) or (foreign_danger(array) if array else None)


def is_own(paths: RunPaths) -> bool:
    """Whether it is there, and one of this user's own."""
    return os.path.isdir(paths.root) and why_foreign(paths) is None
