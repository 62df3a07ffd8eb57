"""Files and directories from elsewhere that are added to the code of a run: `additional_includes`, as in Azure's
client.

Each is placed in the snapshot under its last name. An include that ends in `.zip` is an archive of a directory if no
such file exists but a directory without the suffix does. Azure's client merges directories of the same name; here every
collision is an error.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from worldsize.common.atomic_files import printable_text
from worldsize.snapshot.code_files import CodeFiles
from worldsize.snapshot.scan import RUN_DIRECTORIES, is_executable, scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    import zipfile

_ZIP = ".zip"
_TIME = (1980, 1, 1, 0, 0, 0)
"""The time of all entries of an archive, so that the same files give the same archive."""


def archived_directory(path: str) -> str | None:
    """Return the directory of which the include `path`, an entry of `additional_includes` that ends in .zip, is an
    archive; None for an include that is copied unchanged."""
    directory = path[: -len(_ZIP)]
    return directory if path.endswith(_ZIP) and not os.path.lexists(path) and os.path.isdir(directory) else None


def include_problems(code: str | None, includes: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the problems of a job's `additional_includes`, which are absolute paths, together with its code directory
    `code`: a (description, hint) for each, such as a missing file or two equal names."""
    names: dict[str, str] = {}
    for path in includes:
        name, shown = os.path.basename(path), printable_text(path)
        other = names.setdefault(name, path)
        beside = os.path.join(code, name) if code else ""
        if not name:
            yield "the root directory cannot be included", "name the parts that the code needs"
        elif name in RUN_DIRECTORIES:
            yield f"{shown}: the run has a directory {name}", "include what is in it, or rename it"
        elif not os.path.exists(path) and archived_directory(path) is None:
            yield f"no such file or directory: {shown}", "it is relative to the file that names it"
        elif beside and os.path.lexists(beside) and os.path.realpath(beside) != os.path.realpath(path):
            yield f"{shown} and {printable_text(beside)} would have the same name", "rename one of them"
        elif beside and os.path.lexists(beside):
            yield f"{shown} is part of the code already", "leave it out"
        elif other is not path:
            yield f"{shown} and {printable_text(other)} would have the same name", "rename one of them"


def find_in_includes(includes: Sequence[str], relative: str) -> str | None:
    """Return the path of the original of the file that one of the `additional_includes` places at `relative` in the
    snapshot of the code; None if there is none."""
    top, slash, below = relative.partition("/")
    for path in includes:
        if os.path.basename(path) == top:
            found = f"{path}{slash}{below}"
            return found if os.path.exists(found) else None
    return None


@contextmanager
def written_archives(includes: Sequence[str], directory: str) -> Iterator[list[str]]:
    """Provide, as a context manager, the paths that a snapshot includes: `includes` with each archive written as a zip
    file to a temporary directory in `directory`, which is removed at the end. Raise SnapshotError if something cannot
    be read, or is too large."""
    if not any(map(archived_directory, includes)):
        yield list(includes)
        return
    made = tempfile.mkdtemp(prefix="includes-", dir=directory)
    try:
        yield [_archive(path, made) for path in includes]
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _archive(path: str, made: str) -> str:
    source = archived_directory(path)
    if source is None:
        return path
    import zipfile

    target = os.path.join(made, os.path.basename(path))
    listing = scan(None, includes=[source])
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(listing.directories):
            archive.writestr(_entry(name + "/", 0o40755), b"")
        files = CodeFiles(listing.root, listing.followed)
        try:
            for name, status in sorted(listing.files):
                opened = files.open_file(name)
                if opened is not None:
                    entry = _entry(name, 0o100755 if is_executable(status) else 0o100644)
                    with os.fdopen(opened, "rb") as file, archive.open(entry, "w", force_zip64=True) as copy:
                        shutil.copyfileobj(file, copy)
        finally:
            files.close()
    return target


def _entry(name: str, mode: int) -> zipfile.ZipInfo:
    import zipfile

    entry = zipfile.ZipInfo(name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), _TIME)
    entry.external_attr = mode << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry
