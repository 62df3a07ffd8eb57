"""The command `worldsize hpcpack`, which mounts the share on nodes of an HPC Pack cluster, which is done once, and
checks that all nodes see it."""

from __future__ import annotations

import argparse
import os
import time

from worldsize.cli.console import add_output_option, complete_computes, load_current_config, set_completer
from worldsize.cli.output import report, show_document, show_json
from worldsize.errors import NotFound, UsageError
from worldsize.jobspec.config.config import ComputeSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.wings.hpcpack.share_mount import Mount

_TYPE = "hpcpack"
_EXAMPLES = """examples:
  worldsize hpcpack share > mount.sh          a script that mounts the share on a Linux node: there, sudo sh mount.sh
  sudo worldsize hpcpack share --apply        mount it now, on this node
  worldsize hpcpack share --head '//HEAD/CcpSpoolDir/app' --user 'HPC\\anna' --owner anna:hpcusers
  worldsize hpcpack check                     each node's view of the share, and its packages and GPUs

The exit code of check is 0 if nothing is bad, 1 if something is, 2 for a mistake in words or configuration.
The password is never on a command line: it comes from WORLDSIZE_HPCPACK_PASSWORD, or a prompt."""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "action", choices=("share", "check"), metavar="share|check", help="mount the share, or check it"
    )
    compute = parser.add_argument(
        "--compute", metavar="NAME", help="the compute (default: the default compute, or the only one of type hpcpack)"
    )
    set_completer(compute, complete_computes)
    parser.add_argument("--apply", action="store_true", help="share: mount it on this node now, as root")
    parser.add_argument("--head", metavar="SHARE", help="share: its Windows path (default: as configured)")
    parser.add_argument("--at", metavar="DIR", help="share: the mount point (default: as configured, or /app)")
    parser.add_argument("--user", metavar="USER", help="share: the account on the cluster (default: as configured)")
    parser.add_argument(
        "--owner", metavar="USER[:GROUP]", help="share: the files' owner on the node (default: the user's name)"
    )
    parser.add_argument(
        "--mode", metavar="MODE", help="share: mode of files and directories (default: 0700, 0750 with a group)"
    )
    parser.add_argument("--smb", metavar="VERSION", default="3.0", help="share: the protocol's version (default: 3.0)")
    add_output_option(parser)
    parser.set_defaults(act=run_action)


def run_action(options: argparse.Namespace) -> int:
    return {"share": _mount_or_print, "check": _check}[options.action](options)


def _mount_or_print(options: argparse.Namespace) -> int:
    from worldsize.wings.hpcpack.share_mount import script

    told = options.head and options.user and not options.compute
    settings = ComputeSettings("", _TYPE) if told else _settings(options)
    mount = _mount(options, settings)
    as_json = options.output == "json"
    code = _apply(mount, str(settings.options.get("url", mount.share)), as_json) if options.apply else 0
    if as_json:
        shown = {**mount._asdict(), "options": mount.options, "fstab": mount.fstab, "script": script(mount)}
        show_json({**shown, "mounted": options.apply and code == 0})
    elif not options.apply:
        show_document(script(mount))
    return code


def _mount(options: argparse.Namespace, settings: ComputeSettings) -> Mount:
    from worldsize.wings.hpcpack.settings import share_of
    from worldsize.wings.hpcpack.share_mount import mount_of

    share = share_of(settings.options)
    head = options.head or (share.unc() if share else "")
    if not head:
        what = f"compute {settings.name} has no share of a head node to mount"
        raise UsageError(what, f"compute.{settings.name}.share.head", r"--head '\\HEAD\CcpSpoolDir\app'")
    user = options.user or str(settings.options.get("user", ""))
    at = options.at or (share.node if share else "/app")
    return mount_of(head, at, user, options.owner, options.mode, options.smb)


def _apply(mount: Mount, url: str, quietly: bool) -> int:
    """Mount the share on this node with the same shell script that is printed without `--apply`, and return the
    script's exit code. The script gets the password in its environment. With `quietly`, its output goes to stderr.
    Raise UsageError if this process is not root."""
    import subprocess
    import sys

    from worldsize.wings.hpcpack.head.credentials import VARIABLE, obtain_password
    from worldsize.wings.hpcpack.share_mount import script

    if os.geteuid() != 0:
        raise UsageError("mounting needs root", "--apply", "use sudo, or give the printed script to an administrator")
    given = {} if os.path.exists(mount.credentials) else {VARIABLE: obtain_password(url, mount.user, os.environ)}
    to = sys.stderr if quietly else None
    environ = {**os.environ, **given}
    shell = ["/bin/sh", "-s"]
    return subprocess.run(shell, input=script(mount).encode(), env=environ, stdout=to, check=False).returncode


def _check(options: argparse.Namespace) -> int:
    from worldsize.cli.check_results import CheckResults, show_results
    from worldsize.service.computes import open_compute
    from worldsize.wings.hpcpack.cluster_check import check_cluster

    settings = _settings(options)
    compute = open_compute(load_current_config(), settings.name, os.environ)
    began = time.monotonic()
    found = check_cluster(compute, settings, report)
    return show_results(CheckResults(None, time.monotonic() - began, found.hosts, found.rows), options.output)


def _settings(options: argparse.Namespace) -> ComputeSettings:
    """Return the settings of the HPC Pack compute that `--compute` names, else of the default compute, else of the only
    one of type hpcpack. Raise UsageError if the named one has another type or there are several; raise NotFound if
    there is none."""
    config = load_current_config()
    if options.compute:
        found = config.compute(options.compute, "--compute")
        if found.type != _TYPE:
            raise UsageError(f"compute {found.name} is of type {found.type}", "--compute", "one of type hpcpack")
        return found
    ours = [compute for compute in config.computes.values() if compute.type == _TYPE]
    default = [compute for compute in ours if compute.name == config.default_compute]
    if len(default or ours) == 1:
        return (default or ours)[0]
    if ours:
        names = ", ".join(compute.name for compute in ours)
        raise UsageError("there are several computes of type hpcpack", "--compute", f"name one: {names}")
    raise NotFound(
        "no compute of type hpcpack is configured", None, "see docs/how-to/clusters/hpcpack.md for worldsize.toml"
    )
