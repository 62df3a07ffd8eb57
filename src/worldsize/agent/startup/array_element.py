"""Completion of an element's run directory when the element starts: it gets its own directories, and its code is linked
from the array's.

An array of hundreds of elements is therefore submitted at once, regardless of the size of the code, and each element
still has its own working directory.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from worldsize.plan.array import array_of, load_trials
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths

_OWN = ("outputs", "logs")
"""Names at the top of code/ that are links to the run's own directories."""


def complete_own_element(plan: Plan, element: RunPaths) -> None:
    """Complete the run directory `element` as `complete_element` does if the run is an element of an array, and, for a
    trial of a search, write its configuration. Do nothing for other runs. Raise OSError."""
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
    """Create the files and directories that the run directory of an array's element lacks, from those of the array: its
    own outputs/ and logs/, and its code as hard links. Existing ones are left unchanged. `without` names outputs that
    belong only to the array; their temporary files are skipped too. Raise OSError."""
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
    """Create the contents of the directory `source` in the directory `target`: directories as directories; links, which
    other users may have created, as links; files by `put(source, target)`. `is_skipped` decides by its name whether an
    entry of `source` itself is left out. Raise OSError."""
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
    """Create a symbolic link at `path`, unless the name exists already."""
    try:
        os.symlink(target, path)
    except FileExistsError:
        pass


def _link_file(source: str, path: str) -> None:
    """Create a hard link to `source` at `path`, or a copy if the file system has no links. Do nothing if the name
    exists."""
    try:
        os.link(source, path)
    except FileExistsError:
        pass
    except OSError:  # the file system has no links, or this file has too many
        _copy(source, path)


def _copy(source: str, path: str) -> None:
    """Copy the file `source` of the array to `path`, so that the element has its own, since its job writes to it. Do
    nothing if the name exists."""
    if not os.path.lexists(path):
        import shutil

        shutil.copy2(source, path, follow_symlinks=False)
