"""Rules for what a snapshot of a code directory leaves out.

A `.amlignore` in the code directory replaces all `.gitignore` files, as on Azure. Without it, the `.gitignore` of each
directory applies to everything below it. The deepest file with a matching rule decides, as in git.
"""

from __future__ import annotations

import os

from worldsize.common.atomic_files import printable_text, read_file
from worldsize.errors import SnapshotError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

AML = ".amlignore"
GIT = ".gitignore"
RESULT_MARK = ".worldsize-result"
"""The name of an empty file that marks a directory written by worldsize. Such a directory is never part of the code."""

_ALWAYS = frozenset((".git", "__pycache__", ".ipynb_checkpoints", ".mypy_cache", ".pytest_cache", ".ruff_cache"))
_ENVIRONMENT_MARKS = frozenset(("pyvenv.cfg", "conda-meta"))
_MOST_STARS = 6
"""The most stars allowed in one name of a pattern. Each further star makes the search for a name that does not match
take many times longer."""


class IgnoreRules:
    """The ignore rules that apply in one directory of the code: immutable, deepest first, each with the length of its
    directory's prefix."""

    __slots__ = ("git", "specs")

    def __init__(self, specs: tuple[tuple[int, GitIgnoreSpec], ...] = (), git: bool = True) -> None:
        self.specs = specs
        self.git = git

    def join(self, path: str, prefix: str, names: set[str], warnings: list[str]) -> IgnoreRules:
        """Return the ignore rules inside an included directory from outside the code, at `path` with the entries
        `names` and the `prefix` in the snapshot. Its own `.amlignore` or `.gitignore` applies in addition to those of
        the code."""
        if AML in names:
            return IgnoreRules(((len(prefix), _read(os.path.join(path, AML), warnings)), *self.specs), git=False)
        return self.enter(path, prefix, names, warnings)

    def enter(self, path: str, prefix: str, names: set[str], warnings: list[str]) -> IgnoreRules:
        """Return the ignore rules inside the directory `path` of the code, which contains `names`: these rules, and
        those of an ignore file in it. `prefix` is its relative path with a slash at the end, or "" for the top."""
        if not prefix and AML in names:
            return IgnoreRules(((0, _read(os.path.join(path, AML), warnings)),), git=False)
        if self.git and GIT in names:
            return IgnoreRules(((len(prefix), _read(os.path.join(path, GIT), warnings)), *self.specs))
        return self

    def is_ignored(self, relative: str, directory: bool) -> bool:
        for length, spec in self.specs:
            verdict = spec.check_file(relative[length:] + "/" if directory else relative[length:]).include
            if verdict is not None:
                return verdict
        return False


def is_always_ignored(name: str) -> bool:
    return name in _ALWAYS or name.endswith(".pyc")


def is_environment(names: set[str]) -> bool:
    """Return whether a directory that contains entries with these `names` is a virtual or conda environment, which a
    snapshot leaves out."""
    return not _ENVIRONMENT_MARKS.isdisjoint(names)


def is_result(names: set[str]) -> bool:
    """Return whether a directory that contains entries with these `names` belongs to a run or an array, which may
    contain secrets, or is a directory of results. A snapshot leaves it out."""
    return "agent.pyz" in names or RESULT_MARK in names


def _read(path: str, warnings: list[str]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec

    try:
        lines = read_file(path).decode("utf-8-sig", "surrogateescape").split("\n")
    except IsADirectoryError:
        lines = []
    except OSError as error:
        raise SnapshotError(f"cannot read it: {error.strerror}", printable_text(path), "correct it") from None
    lines = [line.rstrip("\r") for line in lines]
    for number, line in enumerate(lines):
        if not line.startswith("#") and any(part.count("*") > _MOST_STARS for part in line.split("/")):
            what = "%s:%d: more than %d stars in a name, ignored: %.80s"
            warnings.append(what % (printable_text(path), number + 1, _MOST_STARS, printable_text(line)))
            lines[number] = ""
    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError:
        return GitIgnoreSpec.from_lines(_valid_patterns(path, lines, warnings))


def _valid_patterns(path: str, lines: list[str], warnings: list[str]) -> list[str]:
    from pathspec import GitIgnoreSpec

    good = []
    for number, line in enumerate(lines, 1):
        try:
            GitIgnoreSpec.from_lines([line])
            good.append(line)
        except ValueError:
            warnings.append(f"{printable_text(path)}:{number}: not a pattern, ignored: {printable_text(line)}")
    return good
