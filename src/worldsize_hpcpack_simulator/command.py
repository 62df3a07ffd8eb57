"""The command `simulate`, which starts a simulated cluster on this machine, to test a compute with."""

from __future__ import annotations

import argparse
import contextlib
import os
import stat
import sys
from typing import TYPE_CHECKING

from worldsize.cli.output import report, show_document
from worldsize.errors import UsageError
from worldsize.extras import require_packages

if TYPE_CHECKING:
    from worldsize_hpcpack_simulator.api.head import HeadNode
    from worldsize_hpcpack_simulator.options import Account, SimulatorOptions

_EXAMPLES = """examples:
  worldsize simulate hpcpack                    4 nodes; prints the password's export line and worldsize.toml
  worldsize simulate hpcpack --nodes 2 --share /srv/app --port 8443
  worldsize simulate hpcpack --unmounted cn02   node cn02 lacks the share
  worldsize simulate hpcpack --certificate-days -1    an expired certificate"""
_PASSWORD = "WORLDSIZE_HPCPACK_PASSWORD"
_MOST_NODES = 64
_MOST_DAYS = 3650


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument("what", choices=["hpcpack"], help="the head node of an HPC Pack cluster, and its nodes")
    add = parser.add_argument
    add("--nodes", metavar="N", type=_parse_count, default=4, help="number of nodes (default: 4)")
    add("--port", metavar="PORT", type=_parse_port, default=0, help="port of the head node (default: a free one)")
    add(
        "--share",
        metavar="DIR",
        default="hpcpack/share",
        help="the shared directory (default: hpcpack/share)",
    )
    add("--user", metavar="USER", default="HPC\\hpcadmin", help="the administrator (default: HPC\\hpcadmin)")
    add("--password", metavar="TEXT", help=f"the administrator's password (default: ${_PASSWORD}, or a new one)")
    add(
        "--other-user", metavar="NAME:PASSWORD:ROLE", action="append", default=[], help="one more user; may be repeated"
    )
    add(
        "--generation",
        choices=["2016", "2019", "both"],
        default="both",
        help="the versions whose paths are served (default: both)",
    )
    add(
        "--delay",
        metavar="S",
        type=_parse_seconds,
        default=0.1,
        help="seconds in each transitional state (default: 0.1)",
    )
    add(
        "--cancel-grace",
        metavar="S",
        type=_parse_seconds,
        default=15.0,
        help="seconds between INT and KILL (default: 15)",
    )
    add("--cores", metavar="N", type=_parse_count, default=4, help="cores of each node (default: 4)")
    add("--gpus", metavar="N", type=_parse_count_or_zero, default=0, help="GPUs of each node (default: none)")
    add("--unmounted", metavar="NODE", action="append", default=[], help="a node that lacks the share; may be repeated")
    add(
        "--certificate-days",
        metavar="N",
        type=_parse_days,
        default=30.0,
        help="validity of the certificate; below 0: it has expired",
    )
    add("--no-cached-credentials", action="store_true", help="a submission must include its user name and password")
    add("--no-namespaces", action="store_true", help="nodes share this machine's names and paths")
    add("--requests", metavar="FILE", help="write a line for each request: method, path, status")
    parser.set_defaults(act=simulate)


def simulate(options: argparse.Namespace) -> int:
    require_packages("simulate", "simulator", "starlette", "trustme", "uvicorn")
    from worldsize.trust.decisions import remove_decision, try_write_decision
    from worldsize.trust.documents import open_document
    from worldsize.trust.procfs import set_process_title
    from worldsize_hpcpack_simulator.server import run

    asked, made_up = _simulator_options(options)
    set_process_title("worldsize simulate hpcpack")  # the command line may contain passwords
    trusted: list[str] = []

    def announce(head: HeadNode, url: str, config: str, text: str) -> None:
        try_write_decision(config, True, os.environ, text.encode())
        trusted.append(config)
        _report_start(head, url, config, asked, made_up)

    try:
        log = open_document(options.requests) if options.requests else None
    except OSError as error:
        raise UsageError(f"it cannot be written: {error.strerror}", options.requests, "--requests FILE") from None
    try:
        with log or contextlib.nullcontext():
            run(asked, announce, log)
    finally:
        for config in trusted:  # from now on, a file of this name was not written by the simulator
            with contextlib.suppress(UsageError):
                remove_decision(config, os.environ)
    return 0


def _simulator_options(options: argparse.Namespace) -> tuple[SimulatorOptions, bool]:
    """Return the SimulatorOptions for the command line's options, and whether the administrator's password was
    generated. Raise UsageError if an option is not valid, or a new password would be printed to a file that others can
    read."""
    from worldsize.trust.procfs import withheld_password
    from worldsize_hpcpack_simulator.options import Account, SimulatorOptions

    given = options.password or withheld_password(os.environ)
    if given is None:
        import secrets

        _require_private_output()
        given = secrets.token_urlsafe(12)
        made_up = True
    else:
        made_up = False
    if not options.user.strip() or ":" in options.user:
        raise UsageError(f"{options.user!r} is not a user name", "--user", r"--user DOMAIN\name")
    asked = SimulatorOptions(
        share=os.path.abspath(options.share),
        account=Account(options.user, given, "Administrator"),
        nodes=options.nodes,
        port=options.port,
        others=tuple(_parse_account(text) for text in options.other_user),
        unmounted=tuple(options.unmounted),
        days=options.certificate_days,
        generation=options.generation,
        delay=options.delay,
        grace=options.cancel_grace,
        cores=options.cores,
        gpus=options.gpus,
        namespaces=not options.no_namespaces,
        cached=not options.no_cached_credentials,
    )
    return asked, made_up


def _require_private_output() -> None:
    """Raise UsageError if standard output is a file or pipe that other users can read, since a new password would be
    printed to it. The file must be private from the start: with the password, other users could execute tasks as this
    user."""
    from worldsize.trust.owners import is_believed

    try:
        status = os.fstat(1)
    except OSError:  # there is no standard output
        return
    kept = stat.S_ISREG(status.st_mode) or stat.S_ISFIFO(status.st_mode)
    if kept and (status.st_mode & 0o077 or not is_believed(status.st_uid)):
        what = "a new password would be printed to a file that other users can read"
        raise UsageError(what, "stdout", f"export {_PASSWORD}=… before, or umask 077")


def _parse_account(text: str) -> Account:
    from worldsize_hpcpack_simulator.options import ROLES, Account

    name, _, rest = text.partition(":")
    password, _, role = rest.rpartition(":")
    found = next((each for each in ROLES if each.lower() == role.lower()), None)
    if not name or not password or found is None:
        raise UsageError("a user is NAME:PASSWORD:ROLE", "--other-user", f"ROLE is one of {', '.join(ROLES)}")
    return Account(name, password, found)


def _report_start(head: HeadNode, url: str, config: str, options: SimulatorOptions, made_up: bool) -> None:
    cluster = head.cluster
    report(f"HPC Pack at {url}/hpc: nodes {', '.join(cluster.nodes)}; Ctrl-C ends them")
    for node in cluster.nodes.values():
        report(f"{node.name} is process {node.pid}")
    if not cluster.isolated:
        report(
            f"without namespaces ({cluster.why}): nodes have this machine's name, and see the share at {cluster.link}"
        )
    if made_up:
        show_document(f"export {_PASSWORD}={options.account.password}\n")
    show_document(config + "\n")
    sys.stdout.flush()


def _parse_count(text: str) -> int:
    number = _parse_count_or_zero(text)
    if not number:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {_MOST_NODES}")
    return number


def _parse_count_or_zero(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > _MOST_NODES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to {_MOST_NODES}")
    return int(text)


def _parse_port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port")
    return int(text)


def _parse_seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return number


def _parse_days(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = _MOST_DAYS + 1.0
    if not -_MOST_DAYS <= number <= _MOST_DAYS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days")
    return number
