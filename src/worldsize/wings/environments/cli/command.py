"""env: build, list, show, lock and remove environments: the actions and their arguments, executed by the modules
beside this one."""

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
    """An argument: its names, what argparse is told of it, and what the shell offers."""

    names: tuple[str, ...]
    settings: dict[str, Any]
    complete: Callable[..., list[str]] | None = None


class Action(NamedTuple):
    """An action of env. `function` names a module beside this one, and the function there: "build.lock"."""

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
        "build an environment, or find that it is there",
        """examples:
  worldsize env build environment.yml             prints the directory; the second time at once
  worldsize env build requirements.txt --name nlp
  worldsize env build job.yml --compute lab       what the job will run in, where the nodes of lab see it
  PREFIX=$(worldsize env build torch)             torch: [environment.torch] of worldsize.toml

SPEC is a requirements.txt, an environment.yml, a pyproject.toml or uv.lock, a lock file, a job file, or a name of the
configuration. Ten builds at once build once.""",
        (
            _spec("a file, a job file, or a name"),
            _COMPUTE,
            Option(("--name",), {"help": "what the environment is called (default: as its file says)"}),
        ),
    ),
    "list": Action(
        "shelf.list_environments",
        "the environments that were built",
        """examples:
  worldsize env list
  worldsize env list -o json | jq -r '.[] | select(.state == "ready") | .prefix'""",
        (_COMPUTE,),
    ),
    "show": Action(
        "shelf.show_environment",
        "what is in one",
        """examples:
  worldsize env show torch                        an environment that was built
  worldsize env show environment.yml              what a file would build: where, and whether it is there
  worldsize env show torch --verify               reads every file that conda installed: was one changed?""",
        (
            Option(
                ("name",),
                {"metavar": "NAME", "help": "a name, its unique beginning, a path, or a spec"},
                complete_environments,
            ),
            Option(
                ("--verify",),
                {"action": "store_true", "help": "compare conda's files with its checksums; 1 for changes"},
            ),
            _COMPUTE,
        ),
    ),
    "remove": Action(
        "shelf.remove",
        "remove some",
        """examples:
  worldsize env remove torch
  worldsize env remove torch-0123456789abcdef nlp --force

What a run uses that has not ended stays, unless --force says otherwise.""",
        (
            Option(
                ("names",),
                {"metavar": "NAME", "nargs": "+", "help": "a name, its unique beginning, or a path"},
                complete_environments,
            ),
            Option(("--force",), {"action": "store_true", "help": "also what a run uses that has not ended"}),
        ),
    ),
    "gc": Action(
        "shelf.collect_garbage",
        "remove what nothing has used for long, and what is incomplete",
        """examples:
  worldsize env gc --dry-run
  worldsize env gc --unused 7d

Removed is what no run uses that has not ended, and nothing has used for long; and what is incomplete, and nobody is
building.""",
        (
            Option(("--unused",), {"metavar": "AGE", "default": _UNUSED, "help": f"for so long (default: {_UNUSED})"}),
            Option(("--dry-run",), {"action": "store_true", "help": "say what would go; remove nothing"}),
        ),
    ),
    "shell": Action(
        "use.open_shell",
        "a shell, or a command, in an environment",
        """examples:
  worldsize env shell torch                       an interactive shell
  worldsize env shell environment.yml -- python -c 'import torch; print(torch.__version__)'

The environment is built first where it is not there. Its modules, variables and activation scripts are in force, as
they are for a job. The exit code is the shell's, or the command's.""",
        (
            _spec("a name, a path, a file, or a job file", complete_environments),
            _COMPUTE,
        ),
        json=False,
        usage="worldsize env shell [options] SPEC [-- COMMAND …]",
    ),
    "probe": Action(
        "nodes.probe_compute",
        "what a compute's nodes have that conda packages depend on",
        """examples:
  worldsize env probe --compute lab           asks a node of lab; environments for lab go by its answer from now on

What is printed may stand in worldsize.toml too, in the compute's table, where it wins.""",
        (_COMPUTE,),
    ),
    "check": Action(
        "nodes.check",
        "what the nodes of a compute make of one: imports, versions, driver, glibc",
        """examples:
  worldsize env check                          the current Python, on every node of the default compute
  worldsize env check job.yml --compute lab    what the job runs in, on every usable node of lab
  worldsize env check torch -w 2 --import flash_attn,apex

On each node the packages that the environment names, and those known to matter (torch, tensorflow, jax, numpy, …), are
imported; glibc, the GPU driver and torch's CUDA are compared. The exit code is 1 where something is bad.""",
        (
            Option(
                ("spec",),
                {"metavar": "SPEC", "nargs": "?", "help": "as of env build; the current Python when left out"},
            ),
            Option(
                ("--import",),
                {"metavar": "NAMES", "dest": "modules", "default": "", "help": "further modules, by comma"},
            ),
            Option(
                ("-w", "--world"),
                {"metavar": "N", "type": parse_count, "help": "on N nodes of their own, rather than on all"},
            ),
            _COMPUTE,
        ),
    ),
    "pack": Action(
        "use.pack",
        "one file of it, which nodes unpack on their own disks",
        """examples:
  worldsize env pack /shared/me/venv                    writes venv.tar.gz here, and prints its name
  worldsize env pack torch -o /shared/me/torch.tar.gz
  worldsize run job.yml --set environment=/shared/me/torch.tar.gz

SPEC is a virtual or conda environment, by path or by name, or what `worldsize env build` takes, which is built first.
Nodes unpack the file on their own disks, once for all of their ranks, and keep it there for later runs. A job that
says `distribute: local` packs by itself. The Python of a virtual environment travels too, unless it is the system's
own.""",
        (
            _spec("an environment, by path or by name; or what it is made of"),
            Option(("-o", "--to"), {"metavar": "FILE", "help": "a file, or a folder for NAME.tar.gz (default: here)"}),
            _COMPUTE,
        ),
        json=False,
    ),
    "lock": Action(
        "build.lock",
        "write a lock file: every package with its hash",
        """examples:
  worldsize env lock environment.yml                          writes environment.lock.json beside it
  worldsize env lock torch --to torch.lock.json
  worldsize run job.yml --set environment=torch.lock.json     the very same packages, anywhere

The lock file holds every package with its version, where it is from, and its hash.""",
        (
            _spec("a file, a job file, or a name"),
            _COMPUTE,
            Option(("--to",), {"metavar": "FILE", "help": "where to (default: beside the spec; -: standard output)"}),
        ),
    ),
    "propose": Action(
        "propose.propose_split",
        "split a requirements list into what conda has and what pip brings",
        """examples:
  worldsize env propose requirements.txt > environment.yml
  worldsize env propose requirements.txt --channel conda-forge --python 3.11
  worldsize env propose requirements.txt -o json

What the channels have goes to conda, as far as the solver makes it fit together; all else goes to pip. Why, for each
that does, is told beside.""",
        (
            Option(("file",), {"metavar": "REQUIREMENTS", "help": "a requirements file"}),
            Option(("--channel",), {"action": "append", "default": [], "help": "where to look; may be repeated"}),
            Option(("--python",), {"metavar": "VERSION", "help": "for this Python, such as 3.11"}),
            Option(("--name",), {"help": "the environment's name (default: the directory's)"}),
        ),
    ),
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
