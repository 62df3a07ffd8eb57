"""Settings of an HPC Pack compute: the head node and the account, kept in handles without the password; and the
share, one directory under three names, which no other module knows. Pure, but for `path_mapping`."""

from __future__ import annotations

import os
from collections.abc import Mapping
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
    "local": Key("path", "Where this machine has it mounted.", blank=False),
}

HEAD: Mapping[str, Key] = {
    "url": Key("text", "The head node: https://HEAD.", blank=False),
    "user": Key("text", r"The account on the cluster: DOMAIN\name.", blank=False),
    "share": Key("object", "The directory that all nodes share, by its names.", keys=SHARE),
    "ca_file": Key("path", "Certificates of the head's authority, unless it is a public one.",
                   blank=False),
    "verify": Key("flag", "Whether the head's certificate is verified (true)."),
    "as_user": Key("text", "On whose behalf an administrator acts.", blank=False),
    "generation": Key("as_text", "The version whose API the head has: 2016 or 2019 (default: detected).",
                      choices=("2016", "2019"), harmless=True),
}  # fmt: skip

KEYS: Mapping[str, Key] = {**HEAD, **HPCPACK, **SETUP}
"""The keys of a configured compute: those that it alone has, and those that a job may have as well."""

NO_PASSWORD = "no file stores the password: set WORLDSIZE_HPCPACK_PASSWORD, use a keyring, or type it when asked"
_BASE = "/hpc"


def complete_settings(values: dict[str, Any]) -> dict[str, Any]:
    """Return the settings with a default `runs_dir`, on the share. `python` stays as it is: it is a path of the nodes,
    which have file systems of their own."""
    local = local_share(values["options"].get("share", {}))
    return {"runs_dir": os.path.join(local, "runs"), **values} if local else values


def key_hint(key: str) -> str | None:
    return NO_PASSWORD if "pass" in key.lower() else None


def path_mapping(options: Mapping[str, Any]) -> Mapped:
    share = share_of(options)
    return share.path_mapping() if share else ()


def local_share(share: Mapping[str, Any]) -> str | None:
    """Where this machine sees the share; None where that is not configured, and no name of it is a directory here."""
    if share.get("local"):
        return str(share["local"])
    head, node = str(share.get("head", "")), str(share.get("node", ""))
    if head.startswith("/"):
        return head
    return node if node and os.path.isdir(node) else None


class HeadAccess(NamedTuple):
    """How the head node is reached.

    url         as configured; `base` is what requests begin with
    ca_file     certificates that the head's is verified with; None: those that this machine trusts
    verify      whether it is verified at all
    as_user     on whose behalf an administrator acts
    generation  "2016" or "2019": how nodes are asked for; None: as it turns out
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
    """How the head node of a compute is reached. ConfigError for a table that does not say enough, or an unsafe URL."""
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
    """Return the fields of a handle about head node and share: for people, and to find the configured compute again."""
    return {**access._asdict(), "share": share._asdict() if share else None}


def has_account_of(settings: ComputeSettings, handle: Mapping[str, Any]) -> bool:
    """Return whether a configured compute is the head node, and the account, that a handle names. A handle, which may
    be anybody's text, decides no more than that: where a password goes, and how the head is verified, is configured."""
    said = settings.options
    return all(said.get(key) == handle.get(key) for key in ("url", "user", "as_user"))


def job_options(options: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options for a job in HPC Pack: the compute's, replaced by the job's own key by key; `job_properties`
    name by name."""
    apart = (*HEAD, "modules", "setup")
    found = {key: value for key, value in options.items() if key not in apart}
    raw = {**found.get("job_properties", {}), **said.get("job_properties", {})}
    found.update(said)
    return {**found, "job_properties": raw} if raw else found


class Share(NamedTuple):
    r"""The names of the shared directory.
    head   as Windows calls it (`\\HEAD\CcpSpoolDir\app`), or a path of this machine
    node   as the Linux nodes call it (`/app`)
    local  where this machine has it mounted; None where it has not
    """

    head: str
    node: str
    local: str | None = None

    def path_mapping(self) -> tuple[tuple[str, str], ...]:
        """Return the mapping of paths as in ComputeFacts, of the share's path here both as configured and without
        links."""
        if self.local is None:
            return ()
        ways = dict.fromkeys((self.local.rstrip("/") or "/", os.path.realpath(self.local)))
        return tuple((way, self.node) for way in ways)

    def to_node_path(self, path: str) -> str:
        """What the nodes call a path of this machine."""
        return to_node_path(path, self.path_mapping())

    def unc(self) -> str:
        """`//HEAD/CcpSpoolDir/app`, as `mount -t cifs` takes it; "" where `head` is no such name."""
        return self.head.replace("\\", "/") if self.head.startswith("\\\\") else ""


class NotMounted(ConfigError):
    """The share is configured, and its directory is not there on this machine."""


def require_mounted(share: Share | None, place: str = "") -> Share:
    """Return the share, mounted on this machine. NotMounted, or ConfigError where too little is configured; `place` is
    where it is configured: `compute.NAME.`."""
    if share is None or not share.node.startswith("/"):
        hint = r"share = { head = '\\HEAD\CcpSpoolDir\app', node = '/app', local = '/mnt/app' }"
        what = "the compute lacks the nodes' path of the share"
        raise ConfigError(what, f"{place}share.node", hint)
    if share.local is None or not os.path.isdir(share.local):
        where = share.local or "no known directory"
        hint = (
            "mount it (`worldsize hpcpack share` prints the script), and name the directory: share.local of the compute"
        )
        kind = ConfigError if share.local is None else NotMounted
        raise kind(f"the share is not mounted here: {where}", f"{place}share.local", hint)
    return share


def share_of(options: Mapping[str, Any]) -> Share | None:
    """Return the share of a configured compute; None where it names none."""
    said = options.get("share", {})
    node = str(said.get("node", "")).rstrip("/") or str(said.get("node", ""))
    head = str(said.get("head", ""))
    local = local_share(said)
    if not node and local is not None:
        node = local
    return Share(head, node, local) if node else None
