"""A shell script that mounts the share on a Linux node, now and at every start of the node. Pure."""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

from worldsize.errors import UsageError
from worldsize.wings.hpcpack.head.credentials import VARIABLE


class Mount(NamedTuple):
    r"""The mount of a share of the head node on one node.

    share    as mount.cifs accepts it: //HEAD/CcpSpoolDir/app
    at       the mount point
    user     the account on the cluster, DOMAIN\name or name
    owner    the Linux account that owns the files on the node
    group    the Linux group; "" for the owner's
    mode     of directories and files, octal digits
    version  of SMB
    """

    share: str
    at: str
    user: str
    owner: str
    group: str
    mode: str
    version: str

    @property
    def credentials(self) -> str:
        """The file that contains the password, which only root can read."""
        return f"/etc/worldsize{self.at.replace('/', '-')}.credentials"

    @property
    def options(self) -> str:
        """The options of the mount. Links in run directories need mfsymlinks. _netdev and nofail are set because the
        head may start later than a node."""
        said = {
            "credentials": self.credentials,
            "vers": self.version,
            "uid": self.owner,
            **({"gid": self.group} if self.group else {}),
            "dir_mode": "0" + self.mode,
            "file_mode": "0" + self.mode,
        }
        return ",".join(
            [*("{}={}".format(*pair) for pair in said.items()), "mfsymlinks", "nosuid", "nodev", "_netdev", "nofail"]
        )

    @property
    def fstab(self) -> str:
        return "{} {} cifs {} 0 0".format(self.share.replace(" ", "\\040"), self.at, self.options)


def mount_of(share: str, at: str, user: str, owner: str | None, mode: str | None, version: str) -> Mount:
    """Return the mount of the head node's share that the words of the command line describe. Raise UsageError if one of
    them is not valid.

    `share` may be written as on Windows. `owner` is USER or USER:GROUP. Without it, the owner is the name in `user`,
    since HPC Pack uses this name for the Linux account that runs a user's tasks.
    """
    name, place = share.replace("\\", "/").rstrip("/"), at.rstrip("/")
    person, _, group = (owner or user.rpartition("\\")[2]).partition(":")
    modes = (mode or ("750" if group else "700")).lstrip("0")
    is_share = name.startswith("//") and name.count("/") >= 3 and name.isprintable() and "," not in name
    is_place = place.startswith("/") and place.isprintable() and not any(sign in place for sign in " ,\\")
    is_owner = all(sign.isalnum() or sign in "._-" for sign in person + group)
    is_version = all(part.isdigit() for part in version.split("."))
    for fits, what, where, hint in (
        (is_share, f"{share!r} is not a share of a head node", "--head", r"'\\HEAD\CcpSpoolDir\app'"),
        (is_place, f"{at!r} is not a mount point", "--at", "/app"),
        (is_owner, f"{owner or person!r} is not a Linux account", "--owner", "--owner NAME, or NAME:GROUP"),
        (person and user.isprintable(), f"{user!r} is not an account", "--user", r"'DOMAIN\name'"),
        (is_version, f"{version!r} is not a version of SMB", "--smb", "3.0; 2.1 for an old head node"),
        (
            re.fullmatch("[0-7]{3}", modes),
            f"{mode!r} is not a mode",
            "--mode",
            "0700, or 0750 for a group that may read",
        ),
    ):
        if not fits:
            raise UsageError(what, where, hint)
    return Mount(name, place, user, person, group, modes, version)


def script(mount: Mount) -> str:
    """Return the shell script that mounts the share on a Linux node, now and at every start; root runs it there. It is
    safe to repeat. It reads the password from the environment, or prompts for it."""
    domain, _, name = mount.user.rpartition("\\")
    values = {
        "share": mount.share,
        "at": mount.at,
        "owner": mount.owner,
        "user": name,
        "domain": domain,
        "credentials": mount.credentials,
        "line": mount.fstab,
    }
    lines = [f"{key}={shlex.quote(value)}" for key, value in values.items()]
    return _SCRIPT % (mount.share, mount.at, "\n".join(lines), VARIABLE)


_SCRIPT = r"""#!/bin/sh
# Mounts %s at %s, now and whenever this node starts. As root.
set -eu
%s
root=${DESTDIR:-}
password=${%s:-}

refuse() { echo "$1" >&2; exit 1; }

[ "$(id -u)" = 0 ] || refuse "this needs root: sudo"
command -v mount.cifs >/dev/null || refuse "mount.cifs is missing: install the package cifs-utils"
id "$owner" >/dev/null 2>&1 || refuse "no account is named $owner here: run an HPC Pack job as $user, or useradd"
mkdir -p "$root$at"

# The password is in a file that only root can read; on a command line, or in fstab, every user could.
if [ -n "$password" ] || ! [ -s "$root$credentials" ]; then
    if [ -z "$password" ]; then
        printf 'password of %%s: ' "$user" >&2
        stty -echo 2>/dev/null || :; IFS= read -r password; stty echo 2>/dev/null || :; echo >&2
    fi
    rm -f "$root$credentials"
    (umask 077; printf 'username=%%s\npassword=%%s\n' "$user" "$password" >"$root$credentials")
    [ -z "$domain" ] || printf 'domain=%%s\n' "$domain" >>"$root$credentials"
fi

if ! grep -qxF "$line" "$root/etc/fstab"; then
    if awk -v at="$at" '!/^#/ && $2 == at { found = 1 } END { exit !found }' "$root/etc/fstab"; then
        refuse "/etc/fstab has another line for $at: remove it first"
    fi
    printf '%%s\n' "$line" >>"$root/etc/fstab"
fi
mountpoint -q "$root$at" || mount "$at"
echo "$share is mounted at $at"
"""
