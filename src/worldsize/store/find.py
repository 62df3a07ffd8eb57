"""Lookup of a run directory by what a user types."""

from __future__ import annotations

import os
from collections.abc import Sequence

from worldsize.common.atomic_files import printable_text, read_object, storage_error
from worldsize.errors import NotFound, StorageError, UsageError
from worldsize.plan.array import array_file, element_root, read_array, split_element
from worldsize.plan.run_paths import RunPaths
from worldsize.store.runs import is_run_id, runs_link_dir
from worldsize.trust.directories import foreign_owner, real_path

_MAX_SHOWN = 5
_NEAREST_LIMIT = 200


def list_ids(home: str, limit: int | None = None) -> list[str]:
    """Return the ids of the runs and arrays in the home, newest first, at most `limit`. The cost is one directory read,
    independently of the number of old runs."""
    directory = runs_link_dir(home)
    try:
        ids = [name for name in os.listdir(directory) if is_run_id(name)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise storage_error(error, directory) from None
    if limit is None:
        ids.sort(reverse=True)
        return ids
    from heapq import nlargest

    return nlargest(limit, ids)


def run_paths(home: str, run_id: str) -> RunPaths:
    """Return the paths of the run directory of `run_id`: the target of the link in the home, if it is a link, else the
    directory in the home. The run need not exist."""
    root = os.path.join(runs_link_dir(home), run_id)
    try:
        root = os.readlink(root)
    except OSError:
        pass
    return RunPaths(root)


def find_run_paths(home: str, text: str | None, latest_of_name: bool = False) -> RunPaths:
    """Return the paths of the run, or array, that `text` names. `text` is an id, its unique beginning, the unique
    beginning of its last part, a run's name, or the path of a run directory of any user. With `_3` at the end it is
    that element of the array. None means the latest run.

    A name that several runs have is ambiguous, except with `latest_of_name`, for which it is the latest run.

    The directory of a known id may be gone. Raise NotFound if there is no such run, UsageError if several runs match.
    """
    if text is None:
        newest = list_ids(home, 1)
        if not newest:
            raise NotFound("there is no run yet", printable_text(runs_link_dir(home)), "start one: `worldsize run …`")
        return _find_by_id(home, newest[0])
    if not _may_name_file(text):
        raise NotFound(f"{text!r} matches no run", None, "`worldsize list` shows the runs")
    if os.sep in text or text in (os.curdir, os.pardir):
        return _find_by_path(text)
    if is_run_id(text) and os.path.lexists(os.path.join(runs_link_dir(home), text)):
        return _find_by_id(home, text)
    if "_" in text and not os.path.isdir(text):
        element = _find_element(home, text)
        if element is not None:
            return element
    ids = list_ids(home)
    matches = [i for i in ids if i.startswith(text) or i[16:].startswith(text)]
    if not matches and (matches := ids_of_name(home, ids, text)) and latest_of_name:
        matches = matches[:1]
    if len(matches) == 1:
        return _find_by_id(home, matches[0])
    if matches:
        raise _ambiguous_error(text, matches)
    if os.path.isfile(os.path.join(text, "plan.json")) or is_array(RunPaths(text)):
        return _find_by_path(text)
    raise _not_found_error(text, ids)


def find_latest_from(home: str, directory: str) -> RunPaths:
    """Return the paths of the latest run, or array, that was started from the working directory `directory`. Raise
    NotFound if there is none; the error names the latest of all runs."""
    from worldsize.store.started_from import started_from

    here = started_from(home, directory)
    if here:
        return _find_by_id(home, here[0])
    newest = list_ids(home, 1)
    if not newest:
        return find_run_paths(home, None)
    where = printable_text(directory)
    hint = f"the latest of all is {newest[0]}; `worldsize list` shows the runs"
    raise NotFound("no run was started from this directory", where, hint)


def is_replaced(home: str, run_id: str) -> bool:
    """Return whether the home has a link for the run that must not be followed: its target belongs to another user, or
    is another user's link, or the link itself is another user's. In a directory where several people's runs are, any
    user can take the name of a removed run."""
    link = os.path.join(runs_link_dir(home), run_id)
    try:
        target = os.readlink(link)
    except OSError:
        return False
    return foreign_owner(target) is not None or foreign_owner(link) is not None


def _find_by_id(home: str, run_id: str) -> RunPaths:
    paths = run_paths(home, run_id)
    if is_replaced(home, run_id):
        if not foreign_owner(paths.root):
            whose = foreign_owner(os.path.join(runs_link_dir(home), run_id))
            raise UsageError(f"{whose}, and points to a run of yours", run_id, "give the path of the run itself")
        what = f"the directory of {run_id} was removed, and another user has created one of that name"
        raise NotFound(
            what, printable_text(paths.root), f"worldsize status {printable_text(paths.root)} shows that run"
        )
    return paths


def is_array(paths: RunPaths) -> bool:
    """Return whether the run directory in `paths` contains a complete array of runs, not a single run."""
    return os.path.exists(array_file(paths.root))


def _find_element(home: str, text: str) -> RunPaths | None:
    """Return the paths of the run that `text`, such as `RUN_3`, names: element 3 of the array RUN. None if `text` has
    another form, or the text before the number names no array. Raise NotFound if the array has no such element."""
    split = split_element(text)
    if split is None:
        return None
    paths = find_run_paths(home, split[0])
    try:
        array = read_array(paths.root)
    except ValueError as error:
        raise NotFound(f"its array cannot be read: {error}", text) from None
    if array is None:
        return None
    if split[1] >= array.elements:
        what = f"{paths.run_id} has no element {split[1]}"
        raise NotFound(what, None, f"they are 0 to {array.elements - 1}")
    return RunPaths(element_root(paths.root, split[1]))


def ids_of_name(home: str, ids: Sequence[str], name: str) -> list[str]:
    """Return those of the run `ids` whose run or array has the name `name` in its plan or array file."""
    return [run_id for run_id in ids if _name_of(run_paths(home, run_id)) == name]


def _name_of(paths: RunPaths) -> object:
    return read_object(paths.plan).get("name") or read_object(array_file(paths.root)).get("name")


def _may_name_file(text: str) -> bool:
    try:
        return bool(text.strip()) and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def _find_by_path(text: str) -> RunPaths:
    root = os.path.realpath(text)
    try:
        root = real_path(text, check_parents=False)
    except (OSError, StorageError) as error:
        if not foreign_owner(root):
            link = error.where if isinstance(error, StorageError) else None
            what = (link and foreign_owner(link)) or str(error)
            hint = "give the path of the run itself"
            raise UsageError(f"{what}, and points to a run of yours", link or printable_text(text), hint) from None
    if not os.path.isfile(os.path.join(root, "plan.json")) and not is_array(RunPaths(root)):
        raise NotFound(
            "not a run directory (it has no plan.json)",
            printable_text(text),
            "give a run's id, or the path of its directory",
        )
    return RunPaths(root)


def _ambiguous_error(text: str, matches: list[str]) -> UsageError:
    shown = ", ".join(matches[:_MAX_SHOWN])
    if len(matches) > _MAX_SHOWN:
        shown += f", and {len(matches) - _MAX_SHOWN} more"
    return UsageError(f"{text!r} names {len(matches)} runs: {shown}", None, "give more of the id")


def _not_found_error(text: str, ids: list[str]) -> NotFound:
    import difflib

    newest = ids[:_NEAREST_LIMIT]
    names = {i: i for i in newest}
    names.update((i[16:], i) for i in reversed(newest))
    nearest = [] if is_run_id(text) else difflib.get_close_matches(text, names, 1)
    if nearest:
        hint = f"did you mean {names[nearest[0]]}? `worldsize list` shows the runs"
    elif is_run_id(text):
        hint = "it was removed, or is in another WORLDSIZE_HOME; `worldsize list` shows the runs"
    elif ids:
        hint = f"`worldsize list` shows the runs; the latest is {ids[0]}"
    else:
        hint = "there is no run yet: start one with `worldsize run …`"
    return NotFound(f"no run is named {text!r}", None, hint)
