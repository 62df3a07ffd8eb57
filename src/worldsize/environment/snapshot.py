"""The code of a run: a snapshot whose content is stored once for all runs, and its manifest."""

from __future__ import annotations

import os
from collections.abc import Iterable

from worldsize.environment.codefiles import CodeFiles
from worldsize.environment.index import Index, stamp
from worldsize.environment.manifest import write_manifest
from worldsize.environment.objects import Objects, copy_stream
from worldsize.environment.scan import OWN, Limits, Listing, Tick, is_executable, no_tick, scan
from worldsize.plan.files import display, storage_error
from worldsize.plan.paths import RunPaths
from worldsize.plan.values import NamedTuple

_INDEX_FROM_FILES = 16
_INDEX_FROM_BYTES = 1 << 18


class Snapshot(NamedTuple):
    """What was stored; `digest` names the whole tree: every path, kind and content."""

    digest: str
    files: int
    bytes: int
    warnings: tuple[str, ...]


def take_snapshot(
    code_dir: str,
    paths: RunPaths,
    objects_dir: str,
    limits: Limits | None = None,
    excluded: Iterable[str] = (),
    tick: Tick = no_tick,
) -> Snapshot:
    """`scan`, then `materialize`."""
    return materialize(scan(code_dir, limits, excluded, tick), paths, objects_dir, tick)


def materialize(listing: Listing, paths: RunPaths, objects_dir: str, tick: Tick = no_tick) -> Snapshot:
    """Puts what was listed into the run's `code/`, and the manifest beside it.

    Every file there holds what its digest says, also when it changes meanwhile; one that is gone by now is left out
    with a warning. Files are read-only, but below outputs/ and logs/, where they are the run's own.
    Raises SnapshotError where a file cannot be read, StorageError where the run cannot be written.
    """
    try:
        files = CodeFiles(listing.root, listing.followed)
        try:
            return _Materialize(listing, files, paths, Objects(objects_dir), tick).run()
        finally:
            files.close()
    except OSError as error:
        raise storage_error(error, error.filename2 or error.filename or paths.code) from None


class _Materialize:
    def __init__(self, listing: Listing, files: CodeFiles, paths: RunPaths, objects: Objects, tick: Tick) -> None:
        self.tick = tick
        self.listing = listing
        self.files = files
        self.paths = paths
        self.objects = objects
        self.manifest: dict[str, tuple[str, int, str]] = {}
        self.warnings = list(listing.warnings)

    def run(self) -> Snapshot:
        listing = self.listing
        for directory in listing.directories:
            if directory not in OWN:
                os.mkdir("%s/%s" % (self.paths.code, directory), 0o700)
        size = sum(status.st_size for _, status in listing.files)
        index = None
        if len(listing.files) >= _INDEX_FROM_FILES or size >= _INDEX_FROM_BYTES:
            index = Index(self.objects.directory, listing.root, listing.started_ns)
        for number, (relative, status) in enumerate(listing.files):
            self.tick(number, len(listing.files))
            if relative.startswith(("outputs/", "logs/")):
                self.copy(relative, status)
            else:
                self.link(relative, status, index)
        for relative, target in listing.links:
            os.symlink(target, "%s/%s" % (self.paths.code, relative))
            self.manifest[relative] = ("link", 0, target)
        if index:
            index.save()
        return self.finish()

    def link(self, relative: str, status: os.stat_result, index: Index | None) -> None:
        executable = is_executable(status)
        target = "%s/%s" % (self.paths.code, relative)
        digest = index.known(relative, status) if index else None
        if digest is None or not self.objects.link(digest, executable, status.st_size, target):
            source = self.files.open_file(relative)
            if source is None:
                return self.gone(relative)
            try:
                name = "%s/%s" % (self.listing.root, relative)
                digest, size, after = self.objects.add(source, name, executable, target)
            finally:
                os.close(source)
            if index and stamp(after) == stamp(status):
                index.learn(relative, status, digest)
        else:
            size = status.st_size
        self.manifest[relative] = ("exec" if executable else "file", size, digest)

    def copy(self, relative: str, status: os.stat_result) -> None:
        source = self.files.open_file(relative)
        if source is None:
            return self.gone(relative)
        executable = is_executable(status)
        try:
            target = os.open(
                "%s/%s" % (self.paths.code, relative),
                os.O_WRONLY | os.O_CREAT | os.O_EXCL,
                0o700 if executable else 0o600,
            )
            try:
                digest, size = copy_stream(source, os.fstat(source).st_size, relative, target)
            finally:
                os.close(target)
        finally:
            os.close(source)
        self.manifest[relative] = ("exec" if executable else "file", size, digest)

    def gone(self, relative: str) -> None:
        self.warnings.append("%s: left out: it vanished meanwhile" % display(relative))

    def finish(self) -> Snapshot:
        digest = write_manifest(self.paths.manifest, self.manifest)
        size = sum(size for _, size, _ in self.manifest.values())
        return Snapshot(digest, len(self.manifest), size, tuple(self.warnings))
