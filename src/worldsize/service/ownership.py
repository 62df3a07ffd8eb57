"""Whose run it is: of another user's nothing is done, written or ended, whatever its files say."""

from __future__ import annotations

import os

from worldsize.plan.paths import RunPaths
from worldsize.trust.directories import foreign_danger, is_own_directory


def why_foreign(paths: RunPaths) -> str | None:
    """Why the run is not to be taken for one of this user's own, by its directory, and its array's; None if it is."""
    array = os.path.dirname(paths.root) if "_" in paths.run_id else None
    return foreign_danger(paths.root) or (foreign_danger(array) if array else None)


def is_own(paths: RunPaths) -> bool:
    """Whether it is there, and one of this user's own; then it stays so, and what is read of it afterwards is the
    user's. One that is missing may be another's a moment later."""
    return is_own_directory(paths.root) and why_foreign(paths) is None


def danger_of_run(paths: RunPaths) -> str | None:
    """Why nothing of what the run says is to be done: it is not there, or not this user's own."""
    if is_own(paths):
        return None
    return why_foreign(paths) or "its directory is not there"
