"""The command `env`: its actions (build, list, show, lock, remove and others) and their arguments. Other modules of
this package execute the actions."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from importlib import import_module

from worldsize.cli.console import (
    add_output_option,
    complete_computes,
    load_current_config,
    parse_count,
    set_completer,
)
from worldsize.common.named_tuple import Any, NamedTuple


class Option(NamedTuple):
    """An argument: its names, its settings for argparse, and the completion that the shell offers."""

    names: tuple[str, ...]
    settings: dict[str, Any]
    complete: Callable[..., list[str]] | None = None


class Action(NamedTuple):
    """An action of env. `function` names a module of this package and the function in it, such as "build.lock"."""

    function: str
    help: str
    examples: str
    options: tuple[Option, ...] = ()
    json: bool = True
    usage: str | None = None


def complete_environments(**_: Any) -> list[str]:
    from worldsize.wings.environments.shelf import environment_entries

    return [entry.name for entry in environment_entries(load_current_config())]


_COMPUTE = Option(
    ("--compute",), {"metavar": "NAME", "help": "for which compute (default: the configured one)"}, complete_computes
)

_UNUSED = "30d"


def _spec(meaning: str, complete: Callable[..., list[str]] | None = None) -> Option:
    return Option(("spec",), {"metavar": "SPEC", "help": meaning}, complete)


ACTIONS = {
    "build": Action(
        "build.build",
        "build an environment, or find the one already built",
        """examples:
  worldsize env build environment.yml             prints the directory; immediate the second time
  worldsize env build requirements.txt --name nlp
  worldsize env build job.yml --compute lab       the job's environment, where the nodes of lab see it
  PREFIX=$(worldsize env build torch)             torch: [environment.torch] of worldsize.toml

SPEC is a requirements.txt, an environment.yml, a pyproject.toml or uv.lock, a lock file, a job file, or a name of the
configuration. Ten builds at once build once.""",
        (
            _spec("a file, a job file, or a name"),
            _COMPUTE,
            Option(("--name",), {"help": "the environment's name (default: the name in its file)"}),
        ),
    ),
    "list": Action(
        "shelf.list_environments",
        "list the built environments",
        """examples:
  worldsize env list
  worldsize env list -o json | jq -r '.[] | select(.state == "ready") | .prefix'""",
        (_COMPUTE,),
    ),
    "show": Action(
        "shelf.show_environment",
        "show one environment's content",
        """examples:
  worldsize env show torch                        an environment that was built
  worldsize env show environment.yml              the environment of a file: its path, and whether it exists
  worldsize env show torch --verify               reads every file that conda installed, and reports changes""",
        (
            Option(
                ("name",),
                {"metavar": "NAME", "help": "a name, its unique beginning, a path, or a spec"},
                complete_environments,
            ),
            Option(
                ("--verify",),
                {"action": "store_true", "help": "compare conda's files with its checksums; exit code 1 for changes"},
            ),
            _COMPUTE,
        ),
    ),
    "remove": Action(
        "shelf.remove",
        "remove environments",
        """examples:
  worldsize env remove torch
  worldsize env remove torch-0123456789abcdef nlp --force

Environments of runs that have not ended are kept, unless --force is given.""",
        (
            Option(
                ("names",),
                {"metavar": "NAME", "nargs": "+", "help": "a name, its unique beginning, or a path"},
                complete_environments,
            ),
            Option(("--force",), {"action": "store_true", "help": "also environments of runs that have not ended"}),
        ),
    ),
    "gc": Action(
        "shelf.collect_garbage",
        "remove environments that are unused or incomplete",
        """examples:
  worldsize env gc --dry-run
  worldsize env gc --unused 7d

Removes environments that no unfinished run uses and that have not been used for this time; and incomplete ones that no
process is building.""",
        (
            Option(
                ("--unused",),
                {"metavar": "AGE", "default": _UNUSED, "help": f"unused for this time (default: {_UNUSED})"},
            ),
            Option(("--dry-run",), {"action": "store_true", "help": "print what would be removed; remove nothing"}),
        ),
    ),
    "shell": Action(
        "use.open_shell",
        "open a shell, or run a command, in an environment",
        """examples:
  worldsize env shell torch                       an interactive shell
  worldsize env shell environment.yml -- python -c 'import torch; print(torch.__version__)'

The environment is built first if it does not exist. Its modules, variables and activation scripts are active, as
for a job. The exit code is the shell's, or the command's.""",
        (
            _spec("a name, a path, a file, or a job file", complete_environments),
            _COMPUTE,
        ),
        json=False,
        usage="worldsize env shell [options] SPEC [-- COMMAND …]",
    ),
    "probe": Action(
        "nodes.probe_compute",
        "find the virtual packages of a compute's nodes",
        """examples:
  worldsize env probe --compute lab           queries a node of lab; later environments for lab use its answer

The printed line may be put into worldsize.toml, in the compute's table, where it takes precedence.""",
        (_COMPUTE,),
    ),
    "check": Action(
        "nodes.check",
        "check an environment on the nodes of a compute: imports, versions, driver, glibc",
        """examples:
  worldsize env check                          the current Python, on every node of the default compute
  worldsize env check job.yml --compute lab    the job's environment, on every usable node of lab
  worldsize env check torch -w 2 --import flash_attn,apex

On each node the packages that the environment names, and those known to matter (torch, tensorflow, jax, numpy, …), are
imported; glibc, the GPU driver and torch's CUDA are compared. The exit code is 1 if something is bad.""",
        (
            Option(
                ("spec",),
                {"metavar": "SPEC", "nargs": "?", "help": "as for env build (default: the current Python)"},
            ),
            Option(
                ("--import",),
                {"metavar": "NAMES", "dest": "modules", "default": "", "help": "further modules, separated by commas"},
            ),
            Option(
                ("-w", "--world"),
                {"metavar": "N", "type": parse_count, "help": "on N nodes, instead of on all"},
            ),
            _COMPUTE,
        ),
    ),
    "pack": Action(
        "use.pack",
        "pack an environment into one file, which nodes unpack on their own disks",
        """examples:
  worldsize env pack /shared/me/venv                    writes venv.tar.gz here, and prints its name
  worldsize env pack torch -o /shared/me/torch.tar.gz
  worldsize run job.yml --set environment=/shared/me/torch.tar.gz

SPEC is a virtual or conda environment, by path or by name, or a SPEC of `worldsize env build`, which is built first.
Nodes unpack the file on their own disks, once for all of their ranks, and keep it there for later runs. A job with
`distribute: local` packs by itself. The Python of a virtual environment is included, unless it is the
system's.""",
        (
            _spec("an environment, by path or by name; or its SPEC"),
            Option(("-o", "--to"), {"metavar": "FILE", "help": "a file, or a folder for NAME.tar.gz (default: here)"}),
            _COMPUTE,
        ),
        json=False,
    ),
    "lock": Action(
        "build.lock",
        "write a lock file: every package with its hash",
        """examples:
  worldsize env lock environment.yml                          writes environment.lock.json next to it
  worldsize env lock torch --to torch.lock.json
  worldsize run job.yml --set environment=torch.lock.json     the same packages, anywhere

The lock file holds every package with its version, where it is from, and its hash.""",
        (
            _spec("a file, a job file, or a name"),
            _COMPUTE,
            Option(
                ("--to",), {"metavar": "FILE", "help": "destination (default: next to the spec; -: standard output)"}
            ),
        ),
    ),
    "propose": Action(
        "propose.propose_split",
        "split a requirements list into conda packages and pip packages",
        """examples:
  worldsize env propose requirements.txt > environment.yml
  worldsize env propose requirements.txt --channel conda-forge --python 3.11
  worldsize env propose requirements.txt -o json

Packages in the channels are assigned to conda, if the solver finds a solution; all others to pip, each with
the reason.""",
        (
            Option(("file",), {"metavar": "REQUIREMENTS", "help": "a requirements file"}),
            Option(("--channel",), {"action": "append", "default": [], "help": "a channel to search; may be repeated"}),
            Option(("--python",), {"metavar": "VERSION", "help": "for this Python, such as 3.11"}),
            Option(("--name",), {"help": "the environment's name (default: the directory's)"}),
        ),
    ),
}

_EXAMPLES = """examples:
  worldsize env build environment.yml             conda first, then pip; prints where it is
  worldsize env build job.yml --compute lab       a job's environment, before it is submitted
  worldsize env list
  worldsize env shell torch -- python -V

`worldsize env ACTION --help` describes each action. A job names its `environment:`, which is built at its first use."""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    table = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=type(parser))
    for name, action in ACTIONS.items():
        one = table.add_parser(name, help=action.help, allow_abbrev=False, formatter_class=parser.formatter_class)
        one.description = action.help[0].upper() + action.help[1:] + "."
        one.epilog, one.usage = action.examples, action.usage
        for option in action.options:
            argument = one.add_argument(*option.names, **option.settings)
            if option.complete:
                set_completer(argument, option.complete)
        if action.json:
            add_output_option(one)
        one.set_defaults(act=partial(_execute, action.function))


def _execute(function: str, options: argparse.Namespace) -> int:
    module, _, name = function.partition(".")
    code: int = getattr(import_module("worldsize.wings.environments.cli." + module), name)(options)
    return code
