"""The command line of cluster.py."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from slurm import machine, registry
from slurm.cluster import Cluster, ClusterError, Flavour, sweep


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cluster.py", description="A real Slurm cluster on this machine.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    start = verbs.add_parser("start", help="start one that stays until `stop`; prints its folder")
    start.add_argument("--dir", help="a folder that is new or empty; the default is one under /var/lib/worldsize-slurm")
    start.add_argument("--owner", type=int, default=0, metavar="PID", help="the cluster ends with this process")
    start.add_argument("--visible", action="append", default=[], metavar="DIR", help="of /tmp, seen by the nodes too")
    for name, value in Flavour()._asdict().items():
        flag = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            start.add_argument(flag, action=argparse.BooleanOptionalAction, default=value)
        else:
            start.add_argument(flag, type=int, default=value)
    stop = verbs.add_parser("stop", help="end one and remove all of it")
    stop.add_argument("dir")
    run = verbs.add_parser("run", help="a command as on its login node")
    run.add_argument("dir")
    run.add_argument("command", nargs=argparse.REMAINDER)
    verbs.add_parser("list", help="the clusters of this machine")
    sweeping = verbs.add_parser("sweep", help="end those whose owner is gone")
    sweeping.add_argument("--all", action="store_true", help="end all")
    verbs.add_parser("check", help="what this machine lacks for a cluster")
    return parser


def _start(given: argparse.Namespace) -> int:
    flavour = Flavour(**{name: getattr(given, name) for name in Flavour._fields})
    print(Cluster.start(flavour, given.dir, given.visible, given.owner).folder)
    return 0


def _run(given: argparse.Namespace) -> int:
    cluster = Cluster(os.path.realpath(given.dir))
    command = given.command[1:] if given.command[:1] == ["--"] else given.command
    argv = cluster.login_argv(command or [os.environ.get("SHELL", "sh")])
    os.execvpe(argv[0], argv, cluster.environ)


def _list() -> int:
    for found in registry.known():
        state = "dead" if not found.alive else "orphaned" if found.orphaned else "alive"
        print("%s  %s  owner %s" % (state, found.folder, found.owner[0] if found.owner else "none"))
    return 0


def _check() -> int:
    words = machine.missing()
    for line in words:
        print("!!  no Slurm cluster here: " + line)
    return 1 if words else 0


def main(argv: Sequence[str]) -> int:
    given = _parser().parse_args(argv)
    try:
        if given.verb == "start":
            return _start(given)
        if given.verb == "stop":
            Cluster(os.path.realpath(given.dir)).stop()
        elif given.verb == "run":
            return _run(given)
        elif given.verb == "list":
            return _list()
        elif given.verb == "check":
            return _check()
        else:
            for folder in sweep(given.all):
                print(folder)
    except (ClusterError, OSError) as error:
        print("cluster.py: %s" % error, file=sys.stderr)
        return 1
    return 0
