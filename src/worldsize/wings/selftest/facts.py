"""The versions under which a self-test ran, and the facts about a user and a cluster that its report must not
contain."""

from __future__ import annotations

import os
import platform
import pwd
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib import metadata
from typing import Any, cast
from urllib.parse import urlsplit

from worldsize.compute.base import Compute
from worldsize.compute.capabilities import NODE_LIMIT, HasNodeLimit
from worldsize.errors import SubmitAgain, WorldsizeError
from worldsize.jobspec.config.config import ComputeSettings
from worldsize.version import VERSION
from worldsize.wings.selftest.redact import Known

_SECONDS = 20
_SCHEDULERS: Mapping[str, tuple[str, ...]] = {"slurm": ("sinfo", "--version")}
"""The command that prints a scheduler's version, by type of compute."""

_ACCOUNTS = ("account", "wckey", "subscription_id", "resource_group", "workspace_name")
"""Keys of a compute that name the account that is billed."""

_SIGN_IN = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET")

Ask = Callable[[tuple[str, ...]], str]


def versions(settings: ComputeSettings, runs: str, ask: Ask) -> dict[str, str]:
    """Return the versions that the self-test's report names, by the name of the program or package; "" for one that is
    missing. `runs` is the directory of the runs, whose file system is named; `ask` runs a program and returns its first
    line."""
    scheduler = _SCHEDULERS.get(settings.type)
    return {
        "worldsize": VERSION,
        "python": platform.python_version(),
        "kernel": kernel(platform.release()),
        "scheduler": ask(scheduler) if scheduler else "",
        "file_system": file_system(runs),
        "mpi": ask(("mpirun", "--version")),
        "torch": _package_version("torch"),
    }


def kernel(release: str) -> str:
    """Return the leading numbers of a Linux kernel release, `5.15.0-1042` for `5.15.0-1042-azure`. The rest may contain
    a name that identifies the site."""
    found = re.match(r"\d+(?:[.-]\d+)*(?![A-Za-z0-9])", release)
    return found[0] if found else ""


def first_line(words: tuple[str, ...]) -> str:
    """Run the program `words`, and return the first line of its output; "" if the program is missing, fails or takes
    too long."""
    import subprocess

    environ = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(words, capture_output=True, timeout=_SECONDS, env=environ, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = done.stdout[:10_000].decode(errors="replace").splitlines()
    return lines[0].strip()[:100] if done.returncode == 0 and lines else ""


def _package_version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def file_system(path: str, mounts: str = "/proc/self/mountinfo") -> str:
    """Return the type of the file system that contains a path, such as "nfs4"; "" if the kernel does not report it."""
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError:
        return ""
    best, kind = -1, ""
    for line in lines:
        before, _, after = line.partition(" - ")
        at = before.split()[4] if len(before.split()) > 4 else ""
        point = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), at)
        if after and len(point) >= best and (os.path.realpath(path) + "/").startswith(point.rstrip("/") + "/"):
            best, kind = len(point), after.split()[0]
    return kind


def known_secrets(settings: ComputeSettings, compute: Compute, private: str, environ: Mapping[str, str]) -> Known:
    """Return, as a Known, the facts about the user and the cluster that a self-test's report must not contain (login
    names, hosts, accounts, directories), as far as they are known before a test has run."""
    account = pwd.getpwuid(os.getuid())
    options = settings.options
    users = {account.pw_name, *(environ.get(name, "") for name in ("USER", "LOGNAME", "USERNAME"))}
    for name in (options.get("user"), options.get("as_user")):
        users |= {str(name or ""), str(name or "").rpartition("\\")[2]}
    signed_in = [environ.get(name, "") for name in _SIGN_IN] if settings.type == "azureml" else []
    homes = {account.pw_dir, environ.get("HOME", "")}
    return Known(
        users=tuple(filter(None, users)),
        hosts=tuple(sorted(_own_names() | _hosts_in(options) | set(node_names(compute)))),
        accounts=tuple(filter(None, [*(str(options.get(key) or "") for key in _ACCOUNTS), *signed_in])),
        home=tuple({way for home in homes if home for way in (home, os.path.realpath(home))}),
        runs=(private, os.path.realpath(private)),
    )


def _own_names() -> set[str]:
    return with_short_names([socket.gethostname(), platform.node()]) - {"localhost"}


def with_short_names(names: Iterable[str]) -> set[str]:
    """Return the host names `names`, and the part of each name before its first dot, as a set."""
    return {way for name in names if name for way in (name, name.partition(".")[0])}


def _hosts_in(options: Mapping[str, Any]) -> set[str]:
    """Return the host names that the compute's settings `options` contain, in URLs and in paths of Windows shares,
    without IP addresses and "localhost"."""
    found = [str(urlsplit(each).hostname or "") for each in _texts(options) if "://" in each]
    found += [each.lstrip("\\").partition("\\")[0] for each in _texts(options) if each.startswith("\\\\")]
    return {name for name in with_short_names(found) if not name.replace(".", "").isdigit()} - {"localhost"}


def _texts(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [text for each in value.values() for text in _texts(each)]
    if isinstance(value, (list, tuple)):
        return [text for each in value for text in _texts(each)]
    return [value] if isinstance(value, str) else []


def node_names(compute: Compute) -> list[str]:
    """Return the full and short names of a compute's nodes, as far as the compute reports them; an empty list if it
    does not answer."""
    try:
        return [name for node in _nodes(compute) for name in with_short_names([node.name])]
    except WorldsizeError:
        return []  # it does not answer now; the tests will report that


def usable_nodes(compute: Compute) -> int | None:
    """Return the number of a compute's nodes that can start runs; None if the compute does not report it, or creates
    any number of nodes that a run requests. Raise ConfigError, SubmitRejected if the service would accept no job."""
    if "local" in compute.capabilities:
        return None
    if NODE_LIMIT in compute.capabilities:
        with suppress(SubmitAgain):  # as above
            return cast("HasNodeLimit", compute).node_limit()
        return None
    try:
        return sum(node.usable for node in _nodes(compute)) or None
    except WorldsizeError:
        return None  # as above


def _nodes(compute: Any) -> list[Any]:
    return list(compute.nodes()) if "nodes" in compute.capabilities else []
