"""The kernel's table of mounts, as the process sees it: `/proc/self/mountinfo`, proc(5).

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from worldsize.common.atomic_files import read_if_possible
from worldsize.common.named_tuple import NamedTuple

_MOST_BYTES = 4 << 20


class Mount(NamedTuple):
    """A mount, as one line of the table describes it.

    point    the directory at which it is mounted
    kind     the file system's type: "ext4", "nfs4", "fuse.sshfs"
    source   what is mounted: "/dev/vda1", "server:/export"
    root     the directory of that file system that is mounted
    options  those of the file system itself, which distinguish the controllers of cgroups
    """

    point: str
    kind: str
    source: str = ""
    root: str = "/"
    options: tuple[str, ...] = ()


def read_mounts(root: str = "/") -> Sequence[Mount]:
    """Return all mounts of the kernel's table /proc/self/mountinfo as Mount objects, in the order in which they were
    made; none if the table cannot be read."""
    text = read_if_possible(os.path.join(root, "proc/self/mountinfo"), _MOST_BYTES).decode("utf-8", "surrogateescape")
    return [mount for mount in map(_mount_of, text.split("\n")) if mount is not None]


def mount_of_path(path: str, mounts: Sequence[Mount]) -> Mount | None:
    """Return the mount of `mounts` that contains the absolute path, which must have no links; of several at one mount
    point, the last, which hides the others. None if no mount contains the path."""
    holding = [(len(mount.point), at) for at, mount in enumerate(mounts) if _holds(mount.point, path)]
    return mounts[max(holding)[1]] if holding else None


def unmounted_point(path: str, mounts: Sequence[Mount], root: str = "/") -> str:
    """Return the mount point of /etc/fstab that contains the absolute path, or is the path itself, and at which nothing
    is mounted now; "" if there is none. Entries with `noauto` are ignored, because they are not mounted at each start.
    """
    text = read_if_possible(os.path.join(root, "etc/fstab"), _MOST_BYTES).decode("utf-8", "surrogateescape")
    lines = [line.split() for line in text.split("\n") if not line.lstrip().startswith("#")]
    points = [_plain(words[1]) for words in lines if len(words) > 3 and "noauto" not in words[3].split(",")]
    above = [os.path.normpath(point) for point in points if point.startswith("/") and _holds(point, path)]
    mounted = {mount.point for mount in mounts}
    return max((point for point in above if os.path.realpath(point) not in mounted), key=len, default="")


def _mount_of(line: str) -> Mount | None:
    """Parse a line of the kernel's table of mounts into a Mount; None if the line is no entry of the table. In `36 35
    98:0 /root /point rw,noatime master:1 - ext3 /dev/root rw` the optional fields end with the dash."""
    before, dash, after = line.partition(" - ")
    fields, rest = before.split(" "), after.split(" ")
    if not dash or len(fields) < 6 or len(rest) < 3:
        return None
    return Mount(_plain(fields[4]), rest[0], _plain(rest[1]), _plain(fields[3]), tuple(rest[2].split(",")))


def _plain(text: str) -> str:
    r"""Replace the octal codes for blanks, tabs, line ends and backslashes, such as `\040`, with these characters in a
    field of the table of mounts."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8) & 0xFF), text)


def _holds(point: str, path: str) -> bool:
    return path.rstrip("/") == point.rstrip("/") or path.startswith(point.rstrip("/") + "/")
