"""The contents of a prefix: conda's packages and Python's distributions, with their identification, and those of
conda's files that were changed after their installation."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from worldsize.common.atomic_files import open_regular_file, read_object, write_json
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.errors import BuildError

_INSTALLER_FILES = frozenset(("INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_cache.json", "uv_build.json"))
"""Files of a .dist-info that describe the installation and not the installed distribution."""

_SEPARATORS = re.compile(r"[-_.]+")

_SHOWN = 10
_CHUNK = 1 << 20
_HEADERS = 2048
"""The number of bytes of a distribution's metadata that nearly always include its name and its version."""

FileStamps = dict[str, tuple[int, int, int] | None]
"""The size, modification time and inode of files, by their path in the prefix; None for a missing file."""


class InstalledDistribution(NamedTuple):
    """A Python distribution. `path` is its .dist-info. `digest` covers its files' names and contents as they are in the
    wheel; None if it has no list of its files (conda's own). `url` is the origin of the distribution, if that is not an
    index."""

    name: str
    version: str
    path: str
    digest: str | None = None
    url: str | None = None


def normalized_name(name: str) -> str:
    """Return a package's name in the normal form in which package indexes compare names: lower case, with single
    hyphens."""
    return _SEPARATORS.sub("-", name).lower()


def site_packages(prefix: str) -> str | None:
    """Return the site-packages directory of the Python in the environment `prefix`. None if there is none."""
    library = os.path.join(prefix, "lib")
    try:
        names = sorted(name for name in os.listdir(library) if re.fullmatch(r"python\d+\.\d+t?", name))
    except OSError:
        return None
    found = [os.path.join(library, name, "site-packages") for name in names]
    return next((each for each in found if os.path.isdir(each)), None)


def installed_distributions(prefix: str) -> list[InstalledDistribution]:
    """Return the Python distributions installed in the environment `prefix`, sorted by name, with digest and origin.
    Damaged ones are left out."""
    return [each._replace(digest=record_digest(each.path), url=_url(each.path)) for each in named_distributions(prefix)]


def named_distributions(prefix: str) -> list[InstalledDistribution]:
    """Return the Python distributions installed in the environment `prefix`, sorted by name, without digest and origin.
    The lists of their files, which are long, are not read."""
    directory = site_packages(prefix)
    names = os.listdir(directory) if directory else []
    found = []
    for path in (os.path.join(directory or "", name) for name in names if name.endswith((".dist-info", ".egg-info"))):
        metadata = _metadata(path)
        if metadata:
            found.append(InstalledDistribution(*metadata, path))
    return sorted(found, key=lambda each: normalized_name(each.name))


def _metadata(path: str) -> tuple[str, str] | None:
    """Return the name and version of the distribution whose .dist-info or .egg-info is `path`. Only the headers of its
    metadata are read if they suffice, since the text that follows may be long. None if name or version is missing."""
    name = "METADATA" if path.endswith(".dist-info") else "PKG-INFO"
    where = os.path.join(path, name) if os.path.isdir(path) else path
    text = _read_text(where, _HEADERS)
    found = _name_and_version(text.rpartition("\n")[0])  # without the last line, which may be cut off
    return found or _name_and_version(_read_text(where))


def _name_and_version(text: str) -> tuple[str, str] | None:
    found = dict(re.findall(r"^(Name|Version): *(\S+)", text.partition("\n\n")[0], re.MULTILINE))
    return (found["Name"], found["Version"]) if len(found) == 2 else None


def record_rows(path: str) -> list[tuple[str, str]]:
    """Return a pair of file and "sha256=…" for each file in the RECORD of the .dist-info `path`. Files are relative to
    site-packages; digests may be ""."""
    import csv

    rows = csv.reader(_read_text(os.path.join(path, "RECORD")).split("\n"))
    return [(row[0], row[1] if len(row) > 1 else "") for row in rows if row]


def record_digest(path: str) -> str | None:
    """Return the digest of an installed wheel's contents, according to the RECORD of its .dist-info `path`. It excludes
    scripts, which contain the prefix, and records of the installation. None if no file remains."""
    own = os.path.basename(path)
    rows = sorted(
        (name, digest)
        for name, digest in record_rows(path)
        if not name.startswith("../")
        and not name.endswith(".pyc")
        and not (name.startswith(own + "/") and os.path.basename(name) in _INSTALLER_FILES)
    )
    if not rows:
        return None
    from hashlib import sha256

    text = "\n".join("{} {}".format(*row) for row in rows)
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def conda_packages(prefix: str) -> list[dict[str, Any]]:
    """Return the records of the conda packages in the environment `prefix` (the JSON files of conda-meta), sorted by
    name. Empty if there are none."""
    directory = os.path.join(prefix, "conda-meta")
    try:
        names = [name for name in os.listdir(directory) if name.endswith(".json")]
    except OSError:
        return []
    found = [read_object(os.path.join(directory, name)) for name in names]
    return sorted((each for each in found if "name" in each), key=lambda each: str(each["name"]))


def package_set_digest(conda: Sequence[Mapping[str, Any]], pip: Sequence[Mapping[str, Any]]) -> str:
    """Return the digest that identifies an environment's packages, given the rows of its `conda` and `pip` packages. It
    is equal for the same packages, byte for byte, in any location."""
    from hashlib import sha256

    keys = ("name", "version", "build", "sha256")
    rows = ["conda {} {} {} {}".format(*tuple(each.get(key) for key in keys)) for each in conda]
    rows += [f"pip {normalized_name(each['name'])} {each['version']} {each.get('digest')}" for each in pip]
    return sha256("\n".join(sorted(rows)).encode()).hexdigest()


def _url(path: str) -> str | None:
    """Return the origin of the distribution whose .dist-info is `path`, in the form in which a requirement names it
    (PEP 610 and 440), without secrets. For a repository, the address includes the installed commit. None for a
    distribution from an index."""
    from worldsize.trust.secrets import mask_text

    value = read_object(os.path.join(path, "direct_url.json"))
    url, source, within = value.get("url"), value.get("vcs_info"), value.get("subdirectory")
    if not isinstance(url, str):
        return None
    if isinstance(source, dict):
        url = f"{source.get('vcs')}+{url}@{source.get('commit_id')}"
    return mask_text(f"{url}#subdirectory={within}" if within else url)


def mask_addresses(prefix: str, pattern: str, masked: Callable[[str], str]) -> None:
    """Mask the secrets in the value `url` of those JSON files of the environment `prefix` that match the glob
    `pattern`. That value names the origin of a package, and other users who receive the environment, or a pack of it,
    can read it."""
    from glob import glob

    for path in glob(pattern, root_dir=prefix):
        value = read_object(os.path.join(prefix, path))
        url = value.get("url")
        if isinstance(url, str) and masked(url) != url:
            write_json(os.path.join(prefix, path), {**value, "url": masked(url)})


def _read_text(path: str, size: int = -1) -> str:
    """Return the text of a file, or its first `size` characters; empty if the file is missing or cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(size)
    except OSError:
        return ""


class ClobberedFile(NamedTuple):
    """A file of a conda package that was overwritten or removed. `file` is relative to the prefix, `package` is the
    conda package, and `what` is "changed" or "removed". `by` is the distribution that did it; None if no distribution
    has the file in its RECORD."""

    file: str
    package: str
    what: str
    by: str | None

    def text(self) -> str:
        return "{} of {} was {} by {}".format(self.file, self.package, self.what, self.by or "a build step")


def read_file_stamps(prefix: str) -> FileStamps:
    """Return the current stamps (size, modification time, inode) of the files that conda installed in the environment
    `prefix`, by relative path."""
    return {file: _stamp(os.path.join(prefix, file)) for file, _, _ in _conda_files(prefix)}


def find_clobbered(
    prefix: str, before: FileStamps | None, since: Iterable[InstalledDistribution]
) -> list[ClobberedFile]:
    """Return the files of conda packages in `prefix` that were changed or removed, each with the responsible Python
    distribution among those installed `since`.

    Files whose stamp is the same as `before` are not read. If `before` is None, all files are read.
    """
    owners = _file_owners(prefix, since)
    found = []
    for file, package, digest in _conda_files(prefix):
        path = os.path.join(prefix, file)
        stamp = _stamp(path)
        if stamp is None:
            found.append(ClobberedFile(file, package, "removed", owners.get(file)))
        elif (before is None or before.get(file) != stamp) and not _has_digest(path, digest):
            found.append(ClobberedFile(file, package, "changed", owners.get(file)))
    return sorted(found)


def refuse_clobbered(found: list[ClobberedFile], mode: str) -> None:
    """Raise BuildError with the names of conda's files that pip has changed (`found`), unless there are none or `mode`
    is "warn"."""
    if not found or mode == "warn":
        return
    lines = ["  " + each.text() for each in found[:_SHOWN]]
    if len(found) > _SHOWN:
        lines.append(f"  and {len(found) - _SHOWN} more")
    files = "a file" if len(found) == 1 else f"{len(found)} files"
    raise BuildError(
        "pip changed {} of conda's:\n{}".format(files, "\n".join(lines)),
        None,
        "install it with conda or pip, not both; clobber: warn accepts it",
    )


def _conda_files(prefix: str) -> Iterator[tuple[str, str, str | None]]:
    """Yield the relative path, the package and the SHA-256 of each file that conda installed in the environment
    `prefix`. The SHA-256 is None for links and for files without a checksum."""
    for package in conda_packages(prefix):
        for entry in (package.get("paths_data") or {}).get("paths", ()):
            kind, digest = entry.get("path_type"), entry.get("sha256_in_prefix") or entry.get("sha256")
            if kind != "directory" and not entry["_path"].endswith(".pyc"):
                yield entry["_path"], str(package["name"]), None if kind == "softlink" else digest


def _file_owners(prefix: str, since: Iterable[InstalledDistribution]) -> dict[str, str]:
    found = {}
    for each in since:
        site = os.path.dirname(each.path)
        for file, _ in record_rows(each.path):
            found[os.path.relpath(os.path.normpath(os.path.join(site, file)), prefix)] = f"{each.name} {each.version}"
    return found


def _stamp(path: str) -> tuple[int, int, int] | None:
    """Return the size, modification time and inode of the file or link `path`. None if it is missing or cannot be
    accessed."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino


def _has_digest(path: str, digest: str | None) -> bool:
    """Return whether the file `path` has the SHA-256 `digest`. True if `digest` is None, False if the file cannot be
    read."""
    if digest is None:
        return True
    from hashlib import sha256

    found = sha256()
    try:
        with open(open_regular_file(path), "rb") as file:
            while data := file.read(_CHUNK):
                found.update(data)
    except OSError:
        return False
    return found.hexdigest() == digest
