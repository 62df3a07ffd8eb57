"""Settings of an HPC Pack compute: the head node and the account, and the share. Handles keep the account without the
password. The share is one directory under three names, which only this module distinguishes. Pure, except for functions
that look at the file system of this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import PureWindowsPath
from typing import Any, NamedTuple

from worldsize.common.path_mapping import to_node_path
from worldsize.errors import ConfigError
from worldsize.jobspec.config.config import ComputeSettings
from worldsize.jobspec.keys.hpcpack import HPCPACK
from worldsize.jobspec.keys.key import Key
from worldsize.jobspec.keys.slurm import SETUP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.common.path_mapping import Mapped

SHARE: Mapping[str, Key] = {
    "head": Key("text", r"As Windows calls it, \\HEAD\CcpSpoolDir\app; or a path of this machine.", blank=False),
    "node": Key("text", "The directory where the Linux nodes have it mounted: /app.", blank=False),
    "local": Key("path", "Its mount point on this machine.", blank=False),
}

HEAD: Mapping[str, Key] = {
    "url": Key("text", "The head node: https://HEAD.", blank=False),
    "user": Key("text", r"The account on the cluster: DOMAIN\name.", blank=False),
    "share": Key("object", "The directory that all nodes share, by its names.", keys=SHARE),
    "ca_file": Key("path", "Certificates of the head's authority, unless it is a public one.",
                   blank=False),
    "verify": Key("flag", "Whether the head's certificate is verified (true)."),
    "as_user": Key("text", "The user on whose behalf an administrator acts.", blank=False),
    "generation": Key("as_text", "The version whose API the head has: 2016 or 2019 (default: detected).",
                      choices=("2016", "2019"), harmless=True),
}  # fmt: skip

KEYS: Mapping[str, Key] = {**HEAD, **HPCPACK, **SETUP}
"""The keys of a configured compute: those that only a compute has, and those that a job may have as well."""

NO_PASSWORD = "no file stores the password: set WORLDSIZE_HPCPACK_PASSWORD, use a keyring, or type it when asked"
_BASE = "/hpc"


def complete_settings(values: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of an HPC Pack compute with a default `runs_dir` on the share. `python` stays as it is: it is
    a path on the nodes, which have file systems of their own."""
    local = local_share(values["options"].get("share", {}))
    return {"runs_dir": os.path.join(local, "runs"), **values} if local else values


def key_hint(key: str) -> str | None:
    return NO_PASSWORD if "pass" in key.lower() else None


def path_mapping(options: Mapping[str, Any]) -> Mapped:
    share = share_of(options)
    return share.path_mapping() if share else ()


def local_share(share: Mapping[str, Any]) -> str | None:
    """Return the path of the share on this machine, from the configured names of the share; None if it is not
    configured, and no other name of the share can be used as a path here."""
    if share.get("local"):
        return str(share["local"])
    head, node = str(share.get("head", "")), str(share.get("node", ""))
    if head.startswith("/") and not _is_unc(head):
        return head
    return node if node and os.path.isdir(node) else None


def _is_unc(path: str) -> bool:
    """Return whether `path` is the Windows name of a share on a server, in either form of slashes."""
    return path.startswith(("\\\\", "//"))


def windows_part(path: str) -> str | None:
    r"""Return the Windows path in `path`, such as `Z:\app` or `\\HEAD\app`; None if there is none. A configuration or a
    job file is read as on Linux, so a Windows path in it is taken as a relative one, below the directory of the file.
    """
    found = re.search(r"(?:^|/)((?:[A-Za-z]:[\\/]|\\\\).*)", path, re.DOTALL)
    return found[1] if found else None


class HeadAccess(NamedTuple):
    """The settings for access to the head node.

    url         as configured; `base` is the prefix of all requests
    user        the account on the cluster
    ca_file     certificates to verify the head's with; None: those that this machine trusts
    verify      whether the head's certificate is verified at all
    as_user     the user on whose behalf an administrator acts
    generation  "2016" or "2019": the interface that lists the nodes; None: found out by trying
    """

    url: str
    user: str
    ca_file: str | None = None
    verify: bool = True
    as_user: str | None = None
    generation: str | None = None

    @property
    def base(self) -> str:
        plain = self.url.rstrip("/")
        return plain if "/" in plain.partition("://")[2] else plain + _BASE

    @property
    def owner(self) -> str:
        """The account that owns worldsize's jobs."""
        return self.as_user or self.user


def head_access(settings: ComputeSettings) -> HeadAccess:
    """Return the settings for access to the head node of a compute. Raise ConfigError if the compute's table lacks
    `url` or `user`, or if the URL is not https or contains a login."""
    said = settings.options
    for key, hint in (("url", "https://HEAD"), ("user", "DOMAIN\\\\name")):
        if not said.get(key):
            what = f"compute {settings.name} has no `{key}`"
            raise ConfigError(what, f"compute.{settings.name}.{key}", f'{key} = "{hint}"')
    if not said["url"].startswith("https://"):
        what = f"{said['url']} is not an https address: the password would be sent unencrypted"
        raise ConfigError(what, f"compute.{settings.name}.url", 'url = "https://HEAD"')
    if "@" in said["url"].partition("://")[2].partition("/")[0]:
        raise ConfigError("a login in an address is never used", f"compute.{settings.name}.url", NO_PASSWORD)
    return HeadAccess(**{name: said[name] for name in HeadAccess._fields if name in said})


def handle_fields(access: HeadAccess, share: Share | None) -> dict[str, Any]:
    """Return the fields of a run's handle about the head node and the share. They inform people, and identify the
    configured compute again."""
    return {**access._asdict(), "share": share._asdict() if share else None}


def has_account_of(settings: ComputeSettings, handle: Mapping[str, Any]) -> bool:
    """Return whether a configured compute has the head node and the account that the handle of a run names. A handle is
    untrusted text, so it decides no more than this. Where a password is sent, and how the head is verified, is taken
    from the configuration."""
    said = settings.options
    return all(said.get(key) == handle.get(key) for key in ("url", "user", "as_user"))


def job_options(options: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the HPC Pack options for a job: the compute's options, overridden by the job's own `said` key by key, and
    `job_properties` name by name."""
    apart = (*HEAD, "modules", "setup")
    found = {key: value for key, value in options.items() if key not in apart}
    raw = {**found.get("job_properties", {}), **said.get("job_properties", {})}
    found.update(said)
    return {**found, "job_properties": raw} if raw else found


class Share(NamedTuple):
    r"""The names of the shared directory.

    head   its name on Windows (`\\HEAD\CcpSpoolDir\app`), or a path of this machine
    node   its path on the Linux nodes (`/app`)
    local  its mount point on this machine; None if it is not mounted
    """

    head: str
    node: str
    local: str | None = None

    def path_mapping(self) -> tuple[tuple[str, str], ...]:
        """Return the mapping of paths on this machine to paths on the nodes, as pairs, as in ComputeFacts. It contains
        the share's path on this machine both as configured and with links resolved; () if the share is not mounted
        here."""
        if self.local is None:
            return ()
        ways = dict.fromkeys((self.local.rstrip("/") or "/", os.path.realpath(self.local)))
        return tuple((way, self.node) for way in ways)

    def to_node_path(self, path: str) -> str:
        """Return the path that a path on this machine's mount of the share has on the nodes."""
        return to_node_path(path, self.path_mapping())

    def unc(self) -> str:
        """Return the share as `mount -t cifs` accepts it, such as `//HEAD/CcpSpoolDir/app`; "" if `head` is not a UNC
        name."""
        return self.head.replace("\\", "/").rstrip("/") if _is_unc(self.head) else ""

    def local_path(self, windows_path: str) -> str | None:
        """Return the path on this machine of a file that Windows names `windows_path`, by the share's name there; None
        if it is not on the share, or if the share is not mounted here. As on Windows, case does not matter."""
        if self.local is None or not _is_unc(self.head):
            return None
        try:
            below = PureWindowsPath(windows_path).relative_to(PureWindowsPath(self.head))
        except ValueError:
            return None
        return os.path.join(self.local, *below.parts)


class NotMounted(ConfigError):
    """The error for a share that is configured, but whose directory does not exist on this machine."""


def require_mounted(share: Share | None, place: str = "") -> Share:
    """Return `share`, the cluster's shared directory, if it is mounted on this machine. Raise NotMounted if its
    directory does not exist here, and ConfigError if too little is configured. `place` is where the share is
    configured, `compute.NAME.`."""
    if share is None or not share.node.startswith("/"):
        hint = r"share = { head = '\\HEAD\CcpSpoolDir\app', node = '/app', local = '/mnt/app' }"
        what = "the compute lacks the nodes' path of the share"
        raise ConfigError(what, f"{place}share.node", hint)
    if share.local is not None and windows_part(share.local):
        what = f"{windows_part(share.local)} is a Windows path, and this machine needs the mount point of the share"
        raise ConfigError(
            what, f"{place}share.local", "mount the share here, in WSL, and name that directory: /mnt/app"
        )
    if share.local is None or not os.path.isdir(share.local):
        where = share.local or "no known directory"
        hint = (
            "mount it (`worldsize hpcpack share` prints the script), and name the directory: share.local of the compute"
        )
        kind = ConfigError if share.local is None else NotMounted
        raise kind(f"the share is not mounted here: {where}", f"{place}share.local", hint)
    return share


def share_of(options: Mapping[str, Any]) -> Share | None:
    """Return the share of a configured compute; None if it names no path of the share on the nodes or on this
    machine."""
    said = options.get("share", {})
    node = str(said.get("node", "")).rstrip("/") or str(said.get("node", ""))
    head = str(said.get("head", ""))
    local = local_share(said)
    if not node and local is not None:
        node = local
    return Share(head, node, local) if node else None
