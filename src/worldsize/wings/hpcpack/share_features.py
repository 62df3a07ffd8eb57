"""A probe of the features of a shared directory's file system."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import NamedTuple

from worldsize.state.check_rows import OK, WARNING, CheckRow

_LACKS = {
    "modes": (
        "the share stores no permissions: every user who reaches it can read the run",
        "give accounts on it only to users that you trust",
    ),
    "links": (
        "the share supports no symbolic links: ./outputs and ./logs of the command stay in the run's code/",
        "mount it with `mfsymlinks`, here and on every node",
    ),
    "hard_links": ("the share supports no hard links: each run copies its code", None),
}

_NOUNS = {"modes": "permissions", "links": "symbolic links", "hard_links": "hard links"}


class ShareFeatures(NamedTuple):
    """The file system features that run directories need, as this machine sees them. `modes` is whether a file that is
    created for its owner alone stays private."""

    modes: bool
    links: bool
    hard_links: bool

    def rows(self, name: str) -> list[CheckRow]:
        """Return a row of the cluster check, with the id `name`, for each feature of the share's file system. A missing
        feature is a warning if there is a remedy, else OK."""
        return [self._row(name, feature) for feature in self._fields]

    def _row(self, name: str, feature: str) -> CheckRow:
        words, hint = _LACKS[feature]
        if getattr(self, feature):
            return CheckRow("", name, _NOUNS[feature], "kept", OK)
        return CheckRow("", name, _NOUNS[feature], words, WARNING if hint else OK, hint or "")

    def lacks(self) -> list[tuple[str, str | None]]:
        """Return the file system features that the share lacks, in words, each with its remedy; None for a feature
        without a remedy."""
        return [words for name, words in _LACKS.items() if not getattr(self, name)]


def probe_share_features(directory: str) -> ShareFeatures:
    """Try permissions, symbolic links and hard links in a new directory below `directory`, remove it, and return which
    of them work. Raise OSError if nothing can be written."""
    with TemporaryDirectory(prefix=".worldsize-check-", dir=directory, ignore_cleanup_errors=True) as probe:
        path = os.path.join(probe, "file")
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        modes = [stat.S_IMODE(os.stat(each).st_mode) for each in (probe, path)]
        return ShareFeatures(
            modes=not any(mode & 0o077 for mode in modes),
            links=_can_link(os.symlink, "file", path + "-link"),
            hard_links=_can_link(os.link, path, path + "-hard"),
        )


def _can_link(make: Callable[[str, str], None], source: str, target: str) -> bool:
    """Return whether `make`, such as os.symlink, creates a link `target` to `source`; any error of the file system
    counts as no."""
    try:
        make(source, target)
    except OSError:
        return False
    return True
