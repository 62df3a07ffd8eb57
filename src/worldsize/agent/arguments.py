"""Parser for the command line of an agent. The arguments are parsed by hand, because argparse takes longer than all
that an agent does until its ranks run."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.common.named_tuple import NamedTuple, NoReturn
from worldsize.common.numbers import parse_digits
from worldsize.errors import UsageError

_ROLE_OPTIONS = ("--node-rank", "--node-rank-var", "--conduct", "--queue")
_FLAGS = ("--conduct", "--queue", "--prepare")
_VALUES = ("--node-rank", "--node-rank-var", "--attempt", "--attempt-var", "--address", "--launcher", "--starter")


class AgentOptions(NamedTuple):
    """The options of one agent. Exactly one of `node_rank`, `node_rank_var`, `conduct` and `queue` is given; it is the
    agent's role.

    node_rank      the node of the plan that this agent is for; 0 is the head
    node_rank_var  the environment variable that holds the node's rank
    conduct        start the agents of all nodes on this machine, as virtual nodes
    queue          start the runs on this machine, each in its turn
    address        the address at which the other nodes reach this one if it is the head
    attempt_var    the environment variable that holds the lowest possible attempt number: the agent uses the first
                   number from there on that no other process has begun
    prepare        do what a batch script does elsewhere: check the runs that this run waits for, execute its setup
    launcher       the pid of the process that waits for the agents of all nodes, and that the starter of each agent
                   reports to; 0 if there is none
    starter        the pid of the process that has started this one, and may have ended already; 0 means the parent of
                   this process
    """

    run_dir: str
    node_rank: int | None = None
    node_rank_var: str = ""
    conduct: bool = False
    queue: bool = False
    attempt: int = 0
    address: str | None = None
    attempt_var: str = ""
    prepare: bool = False
    launcher: int = 0
    starter: int = 0


def parse_arguments(argv: Sequence[str]) -> AgentOptions:
    """Parse the command-line arguments `argv` of a node's agent, without the program's name, into AgentOptions. Raise
    UsageError if an argument is unknown, if a value is missing or not a number, or unless there is exactly one role and
    one run directory."""
    values, rest = _split_options(argv)
    who = [name for name in _ROLE_OPTIONS if name in values]
    if len(who) != 1:
        _refuse(f"exactly one of the arguments {' '.join(_ROLE_OPTIONS)} is required")
    if len(rest) != 1:
        _refuse(f"one run directory is required, not {len(rest)}")
    return AgentOptions(
        rest[0],
        _number("--node-rank", values["--node-rank"]) if "--node-rank" in values else None,
        values.get("--node-rank-var", ""),
        "--conduct" in values,
        "--queue" in values,
        _number("--attempt", values.get("--attempt", "0")),
        values.get("--address"),
        values.get("--attempt-var", ""),
        "--prepare" in values,
        _number("--launcher", values.get("--launcher", "0")),
        _number("--starter", values.get("--starter", "0")),
    )


def _split_options(argv: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Split the agent's command-line arguments. Return a dictionary of the options by name, with "" for a flag, and the
    list of the positional arguments. Raise UsageError if an option is unknown or has no value."""
    values: dict[str, str] = {}
    rest = []
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if name in _VALUES:
            values[name] = value if equals else next(words, "")
            if not values[name]:
                _refuse(f"{name} expects a value")
        elif word in _FLAGS:
            values[word] = ""
        elif word.startswith("-"):
            _refuse(f"unrecognized arguments: {word}")
        else:
            rest.append(word)
    return values, rest


def _number(name: str, text: str) -> int:
    number = parse_digits(text)
    if number is None:
        _refuse(f"{name}: invalid int value: {text!r:.40}")
    return number


def _refuse(what: str) -> NoReturn:
    raise UsageError(
        what, None, "agent.pyz RUN_DIR (--node-rank N | --node-rank-var NAME | --conduct | --queue) [--attempt K] …"
    )
