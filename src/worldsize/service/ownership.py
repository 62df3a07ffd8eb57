"""Checks of whether a run belongs to this user. Nothing is executed, written or stopped for another user's run,
regardless of its files, nor for a copy, whose files another user may have written. A run of this user's own is found by
its id in a home of the user's."""

from __future__ import annotations

import os
from functools import lru_cache

from worldsize.errors import WorldsizeError
from worldsize.jobspec.config.load import config_directory, load_config
from worldsize.plan.run_paths import RunPaths
from worldsize.store.runs import home_dir, runs_link_dir
from worldsize.trust.decisions import decision_about_directory
from worldsize.trust.directories import foreign_danger, is_own_directory


def foreign_reason(paths: RunPaths) -> str | None:
    """Return the reason, as text, why the run in `paths` cannot be accepted as one of this user's own, from the owner
    and the permissions of its directory and its array's, and from the runs that the user has started; None if it can,
    or if it does not exist."""
    array = os.path.dirname(paths.root) if "_" in paths.run_id else None
    if array and os.path.islink(paths.root):
        return "it is a link, and not an element of an array"
    danger = foreign_danger(paths.root) or (foreign_danger(array) if array else None)
    return danger or _unknown_reason(array or paths.root)


def is_own(paths: RunPaths) -> bool:
    """Return whether the run in `paths` exists, and is one of this user's own. Then it stays so, and what is read from
    it afterwards is the user's. A missing run may be another user's a moment later."""
    return is_own_directory(paths.root) and foreign_reason(paths) is None


def danger_of_run(paths: RunPaths) -> str | None:
    """Return the reason, as text, why the orders in the run's files (such as commands to execute) must not be followed:
    the run does not exist, or is not this user's own; None if it is."""
    if is_own(paths):
        return None
    return foreign_reason(paths) or "its directory does not exist"


def _unknown_reason(root: str) -> str | None:
    """Return the reason, as text, why the run or array in the directory `root` was not started by this user from here:
    no home of the user has a link to it. None if one has, if the user trusts the directory, or if it is missing."""
    if _has_link_to(home_dir(os.environ), root):
        return None
    variables = map(os.environ.get, ("HOME", "WORLDSIZE_HOME", "XDG_CONFIG_HOME", "WORLDSIZE_SITE_CONFIG"))
    if _has_link_to(_configured_home(config_directory(), *variables), root):
        return None
    try:
        status = os.stat(root)
    except OSError:
        return None
    if decision_about_directory(root, status, os.environ):
        return None
    return "it is a copy, or was started from another WORLDSIZE_HOME"


def _has_link_to(home: str | None, root: str) -> bool:
    link = os.path.join(runs_link_dir(home), os.path.basename(root)) if home else ""
    return bool(home) and os.path.realpath(link) == os.path.realpath(root)


@lru_cache(maxsize=4)
def _configured_home(directory: str, *_: str | None) -> str | None:
    """Return the worldsize home that the configuration files for `directory` name; None if they cannot be read, which
    other commands that need them report. The further arguments are the variables on which the result depends, for the
    cache."""
    try:
        return load_config(directory, os.environ).home
    except (WorldsizeError, OSError):
        return None
