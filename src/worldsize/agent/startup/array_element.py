"""An element's run directory, made whole when it starts: its own directories, and its code linked from the array's.

So an array of hundreds of elements is submitted at once however large the code is, and each still has a working
directory of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from worldsize.plan.array import array_of, load_trials
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths

_OWN = ("outputs", "logs")
"""At the top of code/: links to the run's own directories."""


def complete_own_element(plan: Plan, element: RunPaths) -> None:
    """Do what `complete_element` does for a run that is one of an array, and nothing for others. Raises OSError."""
    place = array_of(element)
    if place is None:
        return
    array, search = RunPaths(place[0]), plan.options.get("search")
    if search is None:
        return complete_element(array, element)
    record = load_trials("record")
    complete_element(array, element, record.output_names(search))
    try:
        record.write_configuration(array, element, search)
    except OSError:
        pass  # the element's head tries again, and reports it


def complete_element(array: RunPaths, element: RunPaths, without: tuple[str, ...] = ()) -> None:
    """Make what the element's directory lacks; what is there already stays as it is. `without`: names of outputs that
    are the array's alone, also while they are written. Raises OSError."""
    for directory in element.directories():
        os.makedirs(directory, exist_ok=True)
    _mirror(array.inrank, element.inrank, _link_file)
    _mirror(array.code, element.code, _link_file, lambda name: name in _OWN)
    beginnings = tuple(name + "." for name in without)

    def is_arrays(name: str) -> bool:
        return name in without or (name.endswith(".tmp") and name.startswith(beginnings))

    for name, source, target in zip(_OWN, (array.outputs, array.user_logs), (element.outputs, element.user_logs)):
        _mirror(source, target, _copy, is_arrays)
        _link(os.path.join("..", os.path.basename(target)), os.path.join(element.code, name))


def _mirror(
    source: str, target: str, put: Callable[[str, str], None], is_skipped: Callable[[str], bool] = lambda name: False
) -> None:
    """Make in `target` what `source` holds: directories; links, which others may have made, as links; and files by
    `put(source, target)`. `is_skipped` says by its name what of `source` itself is left out. Raises OSError."""
    with os.scandir(source) as entries:
        for entry in entries:
            if is_skipped(entry.name):
                continue
            path = os.path.join(target, entry.name)
            if entry.is_symlink():
                _link(os.readlink(entry.path), path)
            elif entry.is_dir(follow_symlinks=False):
                os.makedirs(path, exist_ok=True)
                _mirror(entry.path, path, put)
            else:
                put(entry.path, path)


def _link(target: str, path: str) -> None:
    """Make a symbolic link, unless something has the name already."""
    try:
        os.symlink(target, path)
    except FileExistsError:
        pass


def _link_file(source: str, path: str) -> None:
    """Make the target the same file as the source, where the file system has links; else a copy."""
    try:
        os.link(source, path)
    except FileExistsError:
        pass
    except OSError:  # the file system has no links, or this file has too many
        _copy(source, path)


def _copy(source: str, path: str) -> None:
    """Make a file of the element's own, since its job writes to it."""
    if not os.path.lexists(path):
        import shutil

        shutil.copy2(source, path, follow_symlinks=False)
