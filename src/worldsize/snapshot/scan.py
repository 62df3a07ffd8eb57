"""Listing of what a snapshot of a code directory would contain. It walks the tree once, reads no file contents and
writes nothing."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Sequence

from worldsize.common.atomic_files import Descriptor, printable_text
from worldsize.common.named_tuple import NamedTuple
from worldsize.errors import SnapshotError, StorageError
from worldsize.snapshot.code_files import CodeFiles, snapshot_read_error
from worldsize.snapshot.ignore_rules import IgnoreRules, is_always_ignored, is_environment, is_result
from worldsize.snapshot.sizes import human_bytes, largest_entries
from worldsize.trust.directories import real_path
from worldsize.trust.links import read_link
from worldsize.trust.owners import is_believed, is_unknown, user_name

RUN_DIRECTORIES = ("outputs", "logs")
"""The directories at the top of the code that belong to the run. Their files are copied, never linked."""
_RUN_LINKS = ("../outputs", "../user_logs")
MAX_ENTRIES = 20_000
"""The most files, directories and links that a snapshot may contain."""

MAX_BYTES = 1 << 30


class Listing(NamedTuple):
    """The content of a code directory. Paths are relative, with "/", and bytes that are not UTF-8 are surrogates.

    directories  parents first
    files        with their stat, links to files outside followed
    links        with the target that keeps its meaning inside the run
    started_ns   when the walk began, Unix time
    followed     for files that are links or come from elsewhere: the real path of the file
    """

    root: str
    directories: list[str]
    files: list[tuple[str, os.stat_result]]
    links: list[tuple[str, str]]
    warnings: list[str]
    started_ns: int
    followed: dict[str, str]


Tick = Callable[[int, int], None]
"""Callback that is called for each file, or more often, with the number done and the total (0 if not known yet)."""


def no_tick(done: int, total: int) -> None:
    """Do nothing: the `Tick` for callers that show no progress."""


def scan(
    code_dir: str | None, excluded: Iterable[str] = (), tick: Tick = no_tick, includes: Sequence[str] = ()
) -> Listing:
    """Return the listing of what a snapshot of the code directory would contain. `excluded` are directories that are
    left out, such as worldsize's home. `includes` are absolute paths of files and directories that are added under
    their last names, also if there is no code directory.

    Raise SnapshotError if something cannot be read, if two entries have the same name, and as soon as a limit is
    exceeded.
    """
    root = os.path.realpath(code_dir if code_dir is not None else os.path.dirname(includes[0]))
    listing = Listing(root, [], [], [], [], time.time_ns(), {})
    walk = _Walk(listing, frozenset(map(os.path.realpath, excluded)), tick)
    rules = IgnoreRules()
    if code_dir is not None:
        walk.take_tree(root, "", rules)
        rules = walk.code_rules
    for path in includes:
        walk.take_include(path, rules, None if code_dir is None else root)
    return listing


class _Walk:
    def __init__(self, listing: Listing, excluded: frozenset[str], tick: Tick) -> None:
        self.tick = tick
        self.listing = listing
        self.excluded = excluded
        self.code_rules = IgnoreRules()
        """The rules at the top of the code, which also apply to included files and directories."""

        self.root, self.prefix = listing.root, ""
        self.owner: int | None = None
        """The user whose links within the code are followed: the owner of the code, who could change any of it."""

        self.bytes = 0
        self.included: set[str] = set(RUN_DIRECTORIES)

    def take_tree(self, root: str, prefix: str, rules: IgnoreRules) -> None:
        """Add all files below the directory `root`, a real path, to the listing of the snapshot, where they are placed
        below `prefix`."""
        self.root, self.prefix = root, prefix
        try:
            self.files = CodeFiles(root)
            owner = os.stat(root).st_uid
        except OSError as error:
            raise snapshot_read_error(error, root) from None
        self.owner = None if is_unknown(owner) else owner
        try:
            pending = [(prefix, rules)]
            while pending:
                directory, rules = pending.pop()
                pending.extend(self.enter(directory, rules))
        finally:
            self.files.close()

    def take_include(self, path: str, rules: IgnoreRules, code: str | None) -> None:
        """Add the included file or directory `path` from outside the code to the listing of the snapshot, under its
        last name. Raise SnapshotError if that name is taken, or the file cannot be read."""
        name = os.path.basename(path)
        if (code and os.path.lexists(os.path.join(code, name))) or name in self.included:
            raise SnapshotError(f"the snapshot has a {name!r:.80} already", printable_text(path), "rename one of them")
        self.included.add(name)
        try:
            real = real_path(path, check_parents=False)
            status = os.stat(real)
        except OSError as error:
            raise snapshot_read_error(error, path) from None
        if stat.S_ISDIR(status.st_mode):
            return self.take_tree(real, name, rules)
        self.listing.followed[name] = real
        self.take_file(status, name)

    def place(self, relative: str) -> str:
        """Return the path at which the entry with the path `relative` in the snapshot is located now."""
        below = relative[len(self.prefix) :].lstrip("/")
        return f"{self.root}/{below}" if below else self.root

    def enter(self, directory: str, rules: IgnoreRules) -> list[tuple[str, IgnoreRules]]:
        """Add the entries of one directory of the code to the listing. Return the directories below it that are still
        to be entered, with their ignore rules."""
        found = self.files.open_directory(directory[len(self.prefix) :].lstrip("/"))
        if found is None:
            return []
        with Descriptor(found) as descriptor:
            return self.take_entries(descriptor, directory, rules)

    def take_entries(self, descriptor: int, directory: str, rules: IgnoreRules) -> list[tuple[str, IgnoreRules]]:
        listing = self.listing
        path = self.place(directory)
        try:
            with os.scandir(descriptor) as iterator:
                entries = list(iterator)
        except OSError as error:
            raise snapshot_read_error(error, path) from None
        names = {entry.name for entry in entries}
        if directory:
            if is_environment(names) or is_result(names):
                return []
            listing.directories.append(directory)
        prefix = directory + "/" if directory else ""
        if directory and directory == self.prefix:
            rules = rules.join(path, prefix, names, listing.warnings)
        else:
            rules = rules.enter(path, prefix, names, listing.warnings)
        if not directory:
            self.code_rules = rules
        below = []
        for entry in entries:
            relative = prefix + entry.name
            if is_always_ignored(entry.name):
                continue
            is_directory = entry.is_dir(follow_symlinks=False)
            if rules.specs and rules.is_ignored(relative, is_directory):
                continue
            if is_directory:
                if f"{path}/{entry.name}" not in self.excluded:
                    below.append((relative, rules))
            else:
                self.take(descriptor, entry, relative)
        self.check()
        return below

    def take(self, directory: int, entry: os.DirEntry[str], relative: str) -> None:
        if relative in RUN_DIRECTORIES:
            if not (entry.is_symlink() and os.readlink(entry.name, dir_fd=directory) in _RUN_LINKS):
                self.warn(relative, "left out: the run has a directory of that name")
        elif entry.is_symlink():
            self.take_link(directory, entry.name, relative)
        elif entry.is_file(follow_symlinks=False):
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                return
            if self.prefix:
                self.listing.followed[relative] = self.place(relative)
            self.take_file(status, relative)
        else:
            self.warn(relative, "left out: neither a file, a directory nor a link")

    def take_file(self, status: os.stat_result, relative: str) -> None:
        if not stat.S_ISREG(status.st_mode):
            return self.warn(relative, "left out: it was replaced during the scan")
        self.bytes += status.st_size
        self.tick(len(self.listing.files), 0)
        self.listing.files.append((relative, status))
        if self.bytes > MAX_BYTES or len(self.listing.files) > MAX_ENTRIES:
            self.check()

    def take_link(self, directory: int, name: str, relative: str) -> None:
        root, place = self.root, self.place(relative)
        try:
            status, target = read_link(name, directory)
        except FileNotFoundError:
            target = ""
        except OSError as error:
            raise snapshot_read_error(error, place) from None
        if not target:
            return self.warn(relative, "left out: it was replaced during the scan")
        owner = status.st_uid
        path = os.path.join(os.path.dirname(place), target)
        try:
            real = self.real_path(path, owner, self.owner)
            if real == root or real.startswith(root.rstrip("/") + "/"):
                return self.listing.links.append((relative, self.target_in_run(relative, place, real)))
            if not os.path.isfile(real) and not os.path.isdir(real):
                return self.warn(relative, "left out: links to %s, which does not exist", target)
            real = self.real_path(path, owner)
            self.take_outside(relative, real, os.lstat(real))
        except (OSError, StorageError) as error:
            # The link in the run is this user's. It leads to the other user's link, so that a later snapshot refuses
            # it, too.
            kept = path if is_believed(owner) else place
            self.listing.links.append((relative, kept))
            why = error.what if isinstance(error, StorageError) else error.strerror
            real = _resolved_path(path)
            self.warn(relative, "leads to %s, and %s: kept as a link, its content not recorded", real, why or "")

    def target_in_run(self, relative: str, place: str, real: str) -> str:
        """Return the target that the link `relative` has in the run's copy of the code, so that it leads to the run's
        copy of the file `real` to which it leads now. `place` is the present path of the link."""
        if self.prefix:
            return os.path.relpath(real, os.path.dirname(place))
        return _target_in_run(self.root, relative, real)

    def real_path(self, path: str, owner: int, also: int | None = None) -> str:
        """Return the real path to which `path`, the target of a link of `owner`, leads. Raise StorageError if that
        link, or a further link on the way, belongs neither to this user, nor to root, nor to the user `also`; OSError.
        """
        if not is_believed(owner) and owner != also:
            raise StorageError(f"the link belongs to {user_name(owner)}", path)
        return real_path(path, check_parents=False, also=also)

    def take_outside(self, relative: str, real: str, status: os.stat_result) -> None:
        """Add the content of the file `real` outside the code, found through the link `relative`, to the listing. A
        directory is not added; the link to it is kept, with a warning."""
        if stat.S_ISDIR(status.st_mode):
            self.listing.links.append((relative, real))
            self.warn(relative, "links to %s, outside the code: kept as a link, its content not recorded", real)
            return
        self.listing.followed[relative] = real
        self.take_file(status, relative)

    def warn(self, relative: str, text: str, *paths: str) -> None:
        self.listing.warnings.append(f"{printable_text(relative)}: {text % tuple(map(printable_text, paths))}")

    def check(self) -> None:
        listing = self.listing
        count = len(listing.files) + len(listing.directories) + len(listing.links)
        if count > MAX_ENTRIES:
            passed = f"more than {MAX_ENTRIES:,} files and directories"
        elif self.bytes > MAX_BYTES:
            passed = f"more than {human_bytes(MAX_BYTES)}"
        else:
            return
        largest = largest_entries(listing.files, listing.directories)
        raise SnapshotError(
            f"the code is too large for a snapshot: {passed}; largest so far: {largest}",
            printable_text(listing.root),
            "list in .amlignore what the run does not need, or name the code's directory: --code DIR",
        )


def _target_in_run(root: str, link: str, real: str) -> str:
    """Return the target of the link `link` (relative to `root`) in a run, where it points to the run's copy of `real`.

    In a run, outputs and logs are next to the code. Therefore the target is computed from `real`, not from the link's
    own text: `outputs/..` is the code directory in the code, and the run directory in a run.
    """
    top = link.partition("/")[0]
    target = os.path.relpath(real, root)
    if top in RUN_DIRECTORIES and target.partition("/")[0] != top:
        target = "code/" + target
    return os.path.relpath(f"{root}/{target}", os.path.dirname(f"{root}/{link}"))


def _resolved_path(path: str) -> str:
    """Return the real path of `path`, to be shown to people; the path itself if it cannot be resolved."""
    try:
        return os.path.realpath(path)
    except OSError:
        return path


def is_executable(status: os.stat_result) -> bool:
    return bool(status.st_mode & stat.S_IXUSR)
