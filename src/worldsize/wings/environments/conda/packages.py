"""The conda part of an environment: the orders for rattler_process.py, and its answers as packages and errors."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from tempfile import TemporaryDirectory

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.errors import BuildError, UsageError
from worldsize.extras import missing_package_error
from worldsize.trust.directories import make_private_directory, require_reliable_directory
from worldsize.trust.secrets import mask_channel
from worldsize.wings.environments.inspect.installed import (
    conda_packages,
    installed_distributions,
    mask_addresses,
)
from worldsize.wings.environments.inspect.machine import all_virtual_packages
from worldsize.wings.environments.workspace.builder import Build
from worldsize.wings.environments.workspace.programs import ProgramResult, execute, exit_text, failure_hint

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rattler_process.py")
_NAMED_CHANNELS: dict[str, tuple[str, ...]] = {
    "defaults": ("https://repo.anaconda.com/pkgs/main", "https://repo.anaconda.com/pkgs/r"),
    "nodefaults": (),
}
_NAME = re.compile(r"(?:[^\s:]+::)?([A-Za-z0-9_.-]+)")
_TIMEOUT = 300.0


class PackageSource(NamedTuple):
    """The source of conda packages, and the nodes that they are for. `channels` are as the user wrote them, in order of
    precedence. `alias` is the base address of channels that are given by name. `virtual` holds the nodes' virtual
    packages; it is empty if those of this machine apply. `cache` is the directory for packages and indexes."""

    channels: tuple[str, ...]
    alias: str | None
    virtual: tuple[str, ...]
    cache: str

    def order(self, do: str, **more: Any) -> dict[str, Any]:
        addresses = channel_addresses(self.channels)
        return {
            "do": do,
            "channels": addresses,
            "shown": [mask_channel(each) for each in addresses],
            "alias": self.alias.rstrip("/") + "/" if self.alias else None,
            "virtual": all_virtual_packages(self.virtual) if self.virtual else None,
            "repodata": os.path.join(self.cache, "repodata"),
            "packages": os.path.join(self.cache, "packages"),
            "timeout": _TIMEOUT,
            **more,
        }


def ensure_cache_directory(
    cache: str, environ: Mapping[str, str], channels: Sequence[str], alias: str | None = None
) -> str:
    """Return the directory for conda packages and the channels' indexes, created if it is missing. It is a private
    directory below `cache`, or RATTLER_CACHE_DIR, which other tools share. The shared one is not used if one of the
    `channels`, or their alias, has a token or a password, since rattler writes these there. Raise StorageError for a
    directory that other users could write to."""
    shared = environ.get("RATTLER_CACHE_DIR")
    if shared and all(mask_channel(each) == each for each in (*channels, alias or "")):
        return require_reliable_directory(shared)
    own = make_private_directory(os.path.join(cache, "conda"))
    os.chmod(own, 0o700)
    return own


def install(
    work: Build,
    source: PackageSource,
    specs: Sequence[str],
    environ: Mapping[str, str],
    rows: Sequence[Mapping[str, Any]] | None = None,
) -> list[dict[str, Any]]:
    """Solve the conda `specs` and install the packages into the build's prefix, or install exactly the packages of
    `rows`, which come from a lock. Return one row (name, version, url, hashes) for each installed package.

    Raise BuildError if the packages do not fit together, a channel cannot be read, or a package cannot be fetched;
    UsageError for an invalid spec; ConfigError if py-rattler is not installed.
    """
    work.report_step("conda: reading channels" if rows is None else f"conda: {len(rows)} packages of the lock")
    order = source.order("install", specs=list(specs), rows=rows and list(rows), prefix=work.prefix)
    found: list[dict[str, Any]] = ask_rattler(work, order, environ)
    mask_addresses(work.prefix, "conda-meta/*.json", mask_channel)  # rattler masks only the channel there
    return sorted(found, key=lambda row: str(row["name"]))


def find_known(work: Build, source: PackageSource, specs: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Return those of the conda `specs` for which the source's channels have a package. Raise BuildError if a channel
    cannot be read; UsageError for an invalid spec; ConfigError if py-rattler is not installed."""
    found: list[str] = ask_rattler(work, source.order("known", specs=list(specs)), environ)
    return found


def find_conflict(work: Build, source: PackageSource, specs: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Return the conda solver's explanation why `specs` cannot be installed together. None if they can. Raise
    BuildError if a channel cannot be read; UsageError for an invalid spec; ConfigError if py-rattler is not installed.
    """
    try:
        ask_rattler(work, source.order("solve", specs=list(specs)), environ)
    except UnsolvableError as error:
        return error.what
    return None


class UnsolvableError(BuildError):
    """The error for packages that do not fit together or do not exist."""


def ask_rattler(work: Build, order: dict[str, Any], environ: Mapping[str, str]) -> Any:
    """Execute an order (install, solve or known) in rattler's process, and return its result. Rattler writes the
    addresses of channels next to their indexes. If an address has a token or a password, the indexes are kept for this
    order alone. Raise the same errors as `install`."""
    alias = order["alias"] or ""
    if order["shown"] == order["channels"] and mask_channel(alias) == alias:
        return _run_rattler_process(work, order, environ)
    with TemporaryDirectory(prefix="repodata-", dir=os.path.dirname(order["repodata"])) as own:
        return _run_rattler_process(work, {**order, "repodata": own}, environ)


def _run_rattler_process(work: Build, order: dict[str, Any], environ: Mapping[str, str]) -> Any:
    argv = [sys.executable, PROGRAM]
    found_by = {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}
    own = {**found_by, **environ}  # rattler itself may be found through PYTHONPATH
    ended = execute(
        work, argv, own, "conda", lambda line: work.report_progress("conda: " + line), order=json.dumps(order)
    )
    if ended.code == 0:
        return json.loads(ended.out)
    told = (line for line in ended.last if not line.startswith(("fetching ", "linked ", "solving ")))
    said = "\n".join(map(mask_channel, told))
    raise _solver_error(ended, said, work, order)


def _solver_error(ended: ProgramResult, said: str, work: Build, order: dict[str, Any]) -> Exception:
    kind = json.loads(ended.out)["error"] if ended.code == 1 and ended.out else None
    if kind == "no rattler":
        return missing_package_error("building conda environments", "py-rattler", "env")
    if kind == "bad spec":
        return UsageError(said, "conda", "write it in conda's form: numpy, pytorch=2.4, cudnn>=9")
    if kind == "unsolvable":
        return UnsolvableError(f"conda: {said}", None, _solving_hint(order))
    if kind == "unreachable":
        hint = "correct the channel's address, or its credentials; a mirror: channel_alias in worldsize.toml"
        if "dns error" in said or "failed to lookup address" in said:
            host = re.search(r"://(?:[^/@\s]*@)?([\w.-]+)", said)
            what = f"no host is named {host[1]}" if host else "its host name is unknown"
            hint = "correct the channel's address, or name a mirror: channel_alias in worldsize.toml"
            return BuildError(f"conda: a channel cannot be read: {what} (DNS)", None, hint)
        return BuildError(f"conda: a channel cannot be read: {said}", None, hint)
    return BuildError(
        "conda {}{}".format(exit_text(ended.code), ": " + said if said else ""), None, failure_hint(work, ended)
    )


def _solving_hint(order: dict[str, Any]) -> str:
    has = ", ".join(f"{name}={version}" for name, version, _ in order["virtual"] or ())
    what = "it was asked of %s%s; ask for other versions, or move a package to `pip:`"
    return what % (", ".join(order["shown"]), f" for nodes with {has}" if has else "")


def refuse_pip_packages(prefix: str) -> None:
    """Raise UsageError if the conda environment in `prefix` has a distribution that pip has installed: conda and pip
    would break each other's packages."""
    touched = packages_from_pip(prefix)
    if touched:
        what = f"pip has installed {', '.join(touched[:5])} there, and conda can no longer change it"
        raise UsageError(what, prefix, "list all of its packages, and rebuild it: conda first, then pip")


def packages_from_pip(prefix: str) -> list[str]:
    """Return the names of the Python distributions in the environment `prefix` that conda did not install."""
    files = {path for package in conda_packages(prefix) for path in package.get("files", ())}
    return [
        each.name
        for each in installed_distributions(prefix)
        if not any(path.startswith(os.path.relpath(each.path, prefix)) for path in files)
    ]


def with_python(specs: Sequence[str], version: str | None) -> list[str]:
    """Return the conda `specs` with Python in front, in the requested `version` if there is one. Return them unchanged
    if they name Python already. Nothing runs without Python."""
    names = {_name(each) for each in specs}
    if "python" in names:
        return list(specs)
    if version is None:
        return ["python", *specs]
    exact = version[0].isdigit()
    return [
        f"python {version.removesuffix('.*')}.*" if exact else f"python {version.replace(' ', '')}",
        *specs,
    ]


def _name(spec: str) -> str:
    found = _NAME.match(spec.strip())
    return found[1].lower() if found else spec


def channel_addresses(channels: Sequence[str]) -> list[str]:
    """Return the addresses of conda `channels` in the form that rattler accepts, without duplicates. `defaults` becomes
    two addresses, an absolute path becomes a file URL, `nodefaults` becomes none."""
    found: list[str] = []
    for each in channels:
        found += _NAMED_CHANNELS.get(each, ("file://" + each if each.startswith("/") else each,))
    return list(dict.fromkeys(found))


def with_masked_addresses(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of conda packages in a form that may be recorded: tokens and passwords in `url` and `channel` are
    masked."""
    return [{**row, "url": mask_channel(row["url"]), "channel": mask_channel(row["channel"] or "")} for row in rows]
