"""The code of a run: a snapshot whose content is stored once for all runs, and its manifest.

The manifest `code.json` is `{"version": 1, "digest": …, "files": {path: [kind, size, digest]}}`. The kind is "file",
"exec" or "link", and a link's digest is its target. An index per code directory remembers the digest of each file when
it was last read, so that unchanged files are not read again. A file counts as unchanged while its size, both times and
inode are the same. A file that was modified less than two seconds before the scan is not remembered: a second change
within the file system's clock tick would not be visible.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence

from worldsize.common.atomic_files import Descriptor, printable_text, storage_error, write_json
from worldsize.common.digests import digest_of
from worldsize.common.named_tuple import NamedTuple
from worldsize.plan.run_paths import RunPaths
from worldsize.snapshot.code_files import CodeFiles
from worldsize.snapshot.object_store import ObjectStore, read_pieces, write_pieces
from worldsize.snapshot.scan import RUN_DIRECTORIES, Listing, Tick, is_executable, no_tick, scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MANIFEST_VERSION = 1
ManifestFiles = Mapping[str, tuple[str, int, str]]

_INDEX_FROM_FILES = 16
_INDEX_FROM_BYTES = 1 << 18
_RACY_NS = 2 * 10**9

_Entry = list["Any"]


class Snapshot(NamedTuple):
    """The summary of a stored snapshot of a run's code. `digest` identifies the whole tree: every path, kind and
    content. `files` and `bytes` are the number of its entries and their size."""

    digest: str
    files: int
    bytes: int
    warnings: tuple[str, ...]


def take_snapshot(
    code_dir: str | None,
    paths: RunPaths,
    objects_dir: str,
    excluded: Iterable[str] = (),
    tick: Tick = no_tick,
    includes: Sequence[str] = (),
    confirm: Callable[[Listing], None] = lambda _: None,
) -> Snapshot:
    """Copy the code in `code_dir`, and the files and directories `includes`, into the run directory as a snapshot, and
    return its summary: `scan`, then `materialize`. `confirm` is called with the listing between the two, and may raise.
    """
    if not includes:
        listing = scan(code_dir, excluded, tick)
        confirm(listing)
        return materialize(listing, paths, objects_dir, tick)
    from worldsize.snapshot.includes import written_archives

    with written_archives(includes, paths.root) as joined:
        listing = scan(code_dir, excluded, tick, joined)
        confirm(listing)
        return materialize(listing, paths, objects_dir, tick)


def materialize(listing: Listing, paths: RunPaths, objects_dir: str, tick: Tick = no_tick) -> Snapshot:
    """Write the files of `listing` into the run's `code/`, from the object store in `objects_dir`, and the manifest
    next to it. Return the snapshot's digest, size and warnings.

    The content of every file there matches its digest, also if the original changes meanwhile. A file that no longer
    exists is left out with a warning. Files are read-only, except those that belong to the
    run: below outputs/ and logs/, and what an earlier run had written, if the listing is of its `code/`. Raise
    SnapshotError if a file cannot be read, StorageError if the run cannot be written.
    """
    try:
        files = CodeFiles(listing.root, listing.followed)
        try:
            return _Materializer(listing, files, paths, ObjectStore(objects_dir), tick).run()
        finally:
            files.close()
    except OSError as error:
        raise storage_error(error, error.filename2 or error.filename or paths.code) from None


class _Materializer:
    def __init__(self, listing: Listing, files: CodeFiles, paths: RunPaths, objects: ObjectStore, tick: Tick) -> None:
        self.tick = tick
        self.listing = listing
        self.files = files
        self.paths = paths
        self.objects = objects
        self.manifest: dict[str, tuple[str, int, str]] = {}
        self.warnings = list(listing.warnings)
        self.is_rerun = os.path.exists(RunPaths(os.path.dirname(listing.root)).manifest)

    def run(self) -> Snapshot:
        listing = self.listing
        for directory in listing.directories:
            if directory not in RUN_DIRECTORIES:
                os.mkdir(f"{self.paths.code}/{directory}", 0o700)
        size = sum(status.st_size for _, status in listing.files)
        index = None
        if len(listing.files) >= _INDEX_FROM_FILES or size >= _INDEX_FROM_BYTES:
            index = FileIndex(self.objects.directory, listing.root, listing.started_ns)
        for number, (relative, status) in enumerate(listing.files):
            self.tick(number, len(listing.files))
            stored = self.store(relative, status, index)
            if stored is None:
                self.warnings.append(f"{printable_text(relative)}: left out: it vanished during the scan")
            else:
                self.manifest[relative] = ("exec" if is_executable(status) else "file", *stored)
        for relative, target in listing.links:
            os.symlink(target, f"{self.paths.code}/{relative}")
            self.manifest[relative] = ("link", 0, target)
        if index:
            index.save()
        digest = write_manifest(self.paths.manifest, self.manifest)
        size = sum(size for _, size, _ in self.manifest.values())
        return Snapshot(digest, len(self.manifest), size, tuple(self.warnings))

    def store(self, relative: str, status: os.stat_result, index: FileIndex | None) -> tuple[int, str] | None:
        """Write the code file `relative` into the run's `code/`, from the object store where it is unchanged. Return
        the size and digest of the written content; None if the file no longer exists."""
        executable = is_executable(status)
        target = f"{self.paths.code}/{relative}"
        own = relative.startswith(("outputs/", "logs/")) or (self.is_rerun and bool(status.st_mode & stat.S_IWUSR))
        digest = index.find_digest(relative, status) if index and not own else None
        if digest is not None and self.objects.link(digest, executable, status.st_size, target):
            return status.st_size, digest
        opened = self.files.open_file(relative)
        if opened is None:
            return None
        with Descriptor(opened) as source:
            if own:
                return self.copy(source, relative, 0o700 if executable else 0o600)
            digest, size, after = self.objects.add(source, f"{self.listing.root}/{relative}", executable, target)
        if index and stamp(after) == stamp(status):
            index.remember(relative, status, digest)
        return size, digest

    def copy(self, source: int, relative: str, mode: int) -> tuple[int, str]:
        opened = os.open(f"{self.paths.code}/{relative}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with Descriptor(opened) as target:
            digest, size = write_pieces(read_pieces(source, os.fstat(source).st_size, relative), target)
        return size, digest


class FileIndex:
    """The index that remembers the digest of each file of one code directory when it was last read. It is stored in the
    objects directory. It is a cache, and is dropped if it cannot be read."""

    def __init__(self, directory: str, root: str, started_ns: int) -> None:
        self.path = f"{directory}/index-{digest_of(os.fsencode(root))}"
        self.limit_ns = started_ns - _RACY_NS
        self.new: dict[str, _Entry] = {}
        self.old = _read_index(self.path)

    def find_digest(self, relative: str, status: os.stat_result) -> str | None:
        """Return the remembered digest of the content of the code file `relative` if its `status` is unchanged, and
        keep the entry for the next time; None otherwise."""
        entry = self.old.get(relative)
        if entry is None or entry[:4] != stamp(status):
            return None
        self.new[relative] = entry
        return str(entry[4])

    def remember(self, relative: str, status: os.stat_result, digest: str) -> None:
        if status.st_mtime_ns < self.limit_ns and status.st_ctime_ns < self.limit_ns:
            self.new[relative] = [*stamp(status), digest]

    def save(self) -> None:
        if self.new == self.old:
            return
        try:
            write_json(self.path, self.new)
        except OSError:
            pass  # a cache: the files are read again the next time


def _read_index(path: str) -> dict[str, _Entry]:
    try:
        with open(path, "rb") as file:
            entries = json.load(file)
    except (OSError, ValueError):
        return {}
    whole = isinstance(entries, dict) and all(isinstance(entry, list) and len(entry) == 5 for entry in entries.values())
    return entries if whole else {}


def stamp(status: os.stat_result) -> list[int]:
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def tree_digest(files: ManifestFiles) -> str:
    """Return a digest of a snapshot's whole tree that is independent of the order of `files`, a manifest's mapping. It
    covers every path, kind and content."""
    entries = [f"{path}\0{kind}\0{digest}" for path, (kind, _, digest) in sorted(files.items())]
    return digest_of(os.fsencode("\0\0".join(entries)))


def write_manifest(path: str, files: ManifestFiles) -> str:
    """Write the manifest of a snapshot to the JSON file `path`: kind, size and digest of each of `files`, sorted by
    path. Return the digest of the tree."""
    files = dict(sorted(files.items()))
    digest = tree_digest(files)
    write_json(path, {"version": MANIFEST_VERSION, "digest": digest, "files": files})
    return digest
