"""Functions that several verbs share: for their options, the configuration, a run by its name, and output."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Mapping

from worldsize.cli.output import lines_of, report, report_message
from worldsize.cli.questions import can_ask, confirm
from worldsize.common.atomic_files import printable_text
from worldsize.common.debug_notes import is_noting, note_decision
from worldsize.common.named_tuple import Any
from worldsize.common.numbers import parse_digits
from worldsize.errors import UsageError, WorldsizeError
from worldsize.jobspec.config.config import Config
from worldsize.jobspec.config.load import config_directory, load_config
from worldsize.plan.plan import Plan
from worldsize.state.records import Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.plan.array import Array
    from worldsize.service.runs.array import RunArray
    from worldsize.service.runs.run import Run
    from worldsize.trust.projects import TrustQuestion


_DURATION_UNITS = ((172800, 86400, "d"), (7200, 3600, "h"), (120, 60, "min"), (10, 1, "s"))
"""The units of durations: the number of seconds from which on a unit is used, its length in seconds, and its name."""

_AGE_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def current_directory() -> str:
    """Return the path of the current directory. Raise UsageError if it no longer exists."""
    try:
        return os.getcwd()
    except OSError as error:
        raise UsageError(
            f"the current directory: {error.strerror}", None, "change to a directory that exists"
        ) from None


def load_current_config() -> Config:
    """Return worldsize's configuration (Config) for the current directory. If the directory no longer exists, there is
    no project either, but existing runs can still be viewed.

    At a terminal the user is asked about a project's file that could be harmful. Each notice about files is shown once.
    """
    completing = "_ARGCOMPLETE" in os.environ
    config = load_config(config_directory(), os.environ, _ask if not completing and can_ask() else None)
    if is_noting():
        origins = ", ".join(sorted(set(config.origins.values()))) or "defaults alone"
        note_decision(
            f"configuration: {origins}; runs are in {config.home}; the default compute is {config.default_compute}"
        )
    for notice in () if completing else config.notices:
        if notice not in _printed_notices:
            _printed_notices.add(notice)
            report_message("notice: " + notice)
    return config


_printed_notices: set[str] = set()


def _ask(question: TrustQuestion) -> bool | None:
    from worldsize.cli.trust_question import ask_about_project

    return ask_about_project(question)


def add_run_argument(
    parser: argparse.ArgumentParser,
    name: str = "run",
    meaning: str = "a run's id or name; else the latest that was started in this directory",
) -> None:
    argument = parser.add_argument(name, nargs="?", metavar=name.upper(), help=meaning)
    set_completer(argument, complete_runs)


def add_set_option(parser: argparse.ArgumentParser) -> None:
    """Add `--set KEY=VALUE`, the settings of which are in `sets` of the options, in their order."""
    text = "change a key of the job; may be repeated"
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=text, dest="sets")


def add_output_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="text (default) or json")


def parse_count(text: str) -> int:
    """Parse the value of a command-line option that takes a number of things, and return it. Raise ArgumentTypeError if
    it is no number or negative."""
    value = parse_digits(text.removeprefix("-"))
    if value is None:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a number")
    if text.startswith("-") and value:
        raise argparse.ArgumentTypeError(f"{-value} is negative")
    return value


def parse_seconds(text: str) -> float:
    """Parse the value of a command-line option that takes a time in seconds, and return it. Raise ArgumentTypeError if
    it is no number or negative."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a number") from None
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"{text} is not a time")
    return value


def parse_age(text: str, where: str = "--older-than") -> float:
    """Parse an age, such as 30d or 12h, and return it in seconds. Raise UsageError if the text is not an age."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text)
    if match is None:
        raise UsageError(f"{text[:40]!r} is not an age", where, "a number and a unit: 30d, 12h, 90m, 45s")
    return float(match[1]) * _AGE_UNITS[match[2]]


def set_completer(argument: argparse.Action, complete: Callable[..., list[str]]) -> None:
    """Register `complete` as the function that returns the shell's completions for a command-line argument."""
    argument.completer = complete  # type: ignore[attr-defined]


def complete_runs(**_: Any) -> list[str]:
    from worldsize.store.find import list_ids

    return list_ids(load_current_config().home, 50)


def complete_computes(**_: Any) -> list[str]:
    return list(load_current_config().computes)


def complete_job_files(prefix: str, **_: Any) -> list[str]:
    from argcomplete.completers import FilesCompleter

    return list(FilesCompleter(("yml", "yaml", "slurm", "sbatch"))(prefix))


def find_run(text: str | None, action: str | None = None, array_hint: str = "") -> Run:
    """Return the run with the id or name `text`, as `find_runs` does. Raise UsageError for an array, because the
    command works on one run only. `array_hint` is a hint about what can be done with an array."""
    return require_run(find_runs(text, action), array_hint)


def require_run(found: Run | RunArray, array_hint: str = "") -> Run:
    """Return `found` if it is a single run. Raise UsageError if it is an array of runs; its hint includes
    `array_hint`."""
    from worldsize.service.runs.run import Run

    if isinstance(found, Run):
        return found
    hint = "; ".join(filter(None, (f"name one of them: {found.id}_0", array_hint)))
    raise UsageError(f"{found.id} is an array of {len(found)} runs", None, hint)


def find_runs(text: str | None, action: str | None = None, asks: bool = True) -> Run | RunArray:
    """Return the run, or the array of runs, with the id or name `text`; for None the latest that was started from this
    directory.

    `action` is the verb of a command that changes something. With it, a name must be that of exactly one run. A run
    that was not named is reported; at a terminal the user is asked instead, unless `asks` is false. Raise UsageError if
    the answer is no.
    """
    from worldsize.service.runs.open import open_runs
    from worldsize.store.find import find_latest_from, find_run_paths

    home = load_current_config().home
    if text is not None:
        return open_runs(find_run_paths(home, text, latest_of_name=action is None), os.environ)
    try:
        directory = os.getcwd()
    except OSError:  # the directory no longer exists: no run can have been started from it
        return open_runs(find_run_paths(home, None), os.environ)
    found = open_runs(find_latest_from(home, directory), os.environ)
    if action is not None:
        _confirm(action, found, asks)
    return found


def _confirm(action: str, runs: Run | RunArray, asks: bool) -> None:
    name = f" ({printable_text(runs.common.name)})" if runs.has_plan() else ""
    if not (asks and can_ask()):
        report(f"{action} {runs.id}{name}")
        return
    confirm(
        f"{action} {runs.id}{name}?",
        f"{runs.id} is unchanged",
        f"worldsize {action} RUN does not ask for confirmation",
    )


def duration_text(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    size, unit = next((size, unit) for least, size, unit in _DURATION_UNITS if seconds >= least)
    return f"{int(seconds / size)} {unit}"


def size_text(runs: Run | RunArray) -> str:
    """Return the size of a run or an array as text: "1 node, 2 ranks on local"; "4 runs of 1 node, 2 ranks on
    local"."""
    nodes, ranks = runs.size
    several = "" if runs.noun == "run" else f"{count_text(len(runs.runs()), 'run')} of "
    return f"{several}{count_text(nodes, 'node')}, {count_text(ranks, 'rank')} on {runs.common.compute}"


def count_text(number: int, noun: str) -> str:
    """Return the number with the noun, in the singular for 1 and else with an "s": "1 rank", "2 ranks"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def rehearsal_text(plan: Plan | Array) -> str:
    """Return the part of a message about a run that states that it is a rehearsal: ", a rehearsal with 4 virtual GPUs
    per node"; "" if the plan is not a rehearsal."""
    if not isinstance(plan, Plan) or plan.rehearsal is None:
        return ""
    return f", a rehearsal with {count_text(plan.rehearsal.gpus, 'virtual GPU')} per node"


def warnings_text(status: Status) -> str:
    """Return the part of a message about a succeeded run that states its first warning: ", but rank 0 left an uncaught
    ValueError: … (and 1 more)"; "" without warnings."""
    if not status.warnings:
        return ""
    more = f" (and {len(status.warnings) - 1} more)" if len(status.warnings) > 1 else ""
    return f", but {' '.join(lines_of(status.warnings[0].text))}{more}"


def tags_text(tags: Mapping[str, str]) -> str:
    """Return a run's tags as text: `swept, lr=0.1`. A tag with an empty value is shown by its name only."""
    return ", ".join(f"{name}={value}" if value else name for name, value in tags.items())


def request_cancel(run_id: str, cancel: Callable[[], object]) -> None:
    try:
        cancel()
    except (WorldsizeError, KeyboardInterrupt):
        report(f"could not cancel {run_id}")
        raise
    report(f"cancelling {run_id}")
