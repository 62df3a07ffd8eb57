"""env: environments: built, listed, looked at, locked, removed."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import NamedTuple


class Action(NamedTuple):
    """`module` has `configure(parser)`."""

    module: str
    help: str


ACTIONS = {
    "build": Action("build", "build an environment, or find that it is there"),
    "list": Action("shelf", "the environments that were built"),
    "show": Action("shelf", "what is in one"),
    "remove": Action("shelf", "remove some"),
    "gc": Action("shelf", "remove what nothing has used for long, and what is half"),
    "shell": Action("shell", "a shell, or a command, in an environment"),
    "probe": Action("nodes", "what a compute's nodes have that conda packages depend on"),
    "check": Action("nodes", "what the nodes of a compute make of one: imports, versions, driver, glibc"),
    "pack": Action("pack", "one file of it, which nodes unpack on their own disks"),
    "lock": Action("build", "write a lock file: every package with its hash"),
    "propose": Action("propose", "split a requirements list into what conda has and what pip brings"),
}

_EXAMPLES = """examples:
  worldsize env build environment.yml             conda first, then pip; prints where it is
  worldsize env build job.yml --compute lab       what a job will run in, before it is submitted
  worldsize env list
  worldsize env shell torch -- python -V

`worldsize env ACTION --help` tells more. A job says `environment:`, and it is built at its first use."""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    table = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=type(parser))
    for name, action in ACTIONS.items():
        one = table.add_parser(name, help=action.help, allow_abbrev=False, formatter_class=parser.formatter_class)
        one.description = action.help[0].upper() + action.help[1:] + "."
        import_module("worldsize.wings.environments.cli." + action.module).configure(name, one)
