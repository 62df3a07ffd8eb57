"""The selection of runs on the command line: by state, name, labels, compute, age and directory."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Sequence
from datetime import datetime
from fnmatch import fnmatchcase

from worldsize.cli.console import complete_computes, current_directory, load_current_config, parse_age, set_completer
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.errors import UsageError
from worldsize.state.records import RunState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.store.summaries import Summary

_COMPLETED = 50


class RunFilter(NamedTuple):
    """The properties that runs must have. A value that is None or empty accepts any run. `since` is in Unix seconds.
    `ids` are the ids of the runs of a directory."""

    state: str | None = None
    name: str | None = None
    compute: str | None = None
    since: float | None = None
    experiment: str | None = None
    tags: tuple[tuple[str, str | None], ...] = ()
    ids: Sequence[str] | None = None

    def fits(self, run: Summary) -> bool:
        return (
            self.state in (None, run.state)
            and (self.name is None or fnmatchcase(run.name, self.name))
            and self.compute in (None, run.compute)
            and (self.since is None or run.created >= self.since)
            and self.experiment in (None, run.experiment_name)
            and all(name in run.tags and value in (None, run.tags[name]) for name, value in self.tags)
            and (self.ids is None or run.id in self.ids or run.array in self.ids)
        )

    @property
    def words(self) -> str:
        """The description of the runs that the filter accepts, to follow "no run is"; "" for any run."""
        words = [self.state] if self.state else []
        words += [f"called {self.name}"] if self.name is not None else []
        words += [f"on {self.compute}"] if self.compute is not None else []
        words += ["made since then"] if self.since is not None else []
        words += [f"of experiment {self.experiment}"] if self.experiment is not None else []
        words += ["tagged " + (name if value is None else f"{name}={value}") for name, value in self.tags]
        words += ["started from this directory"] if self.ids is not None else []
        return ", ".join(words)


def add_filter_options(parser: argparse.ArgumentParser) -> None:
    state = parser.add_argument("--state", metavar="STATE", help="only runs in this state")
    set_completer(state, complete_states)
    parser.add_argument("--name", metavar="PATTERN", help="only runs of this name: resnet, 'resnet*'")
    compute = parser.add_argument("--compute", metavar="NAME", help="only runs on this compute")
    set_completer(compute, complete_computes)
    parser.add_argument("--since", metavar="TIME", help="only runs made since then: 12h ago, 7d ago, or 2026-11-20")
    parser.add_argument("--here", action="store_true", help="only runs that were started from this directory")
    experiment = parser.add_argument("--experiment", metavar="NAME", help="only runs of this experiment")
    set_completer(experiment, complete_experiments)
    tag = parser.add_argument(
        "--tag", metavar="KEY[=VALUE]", action="append", type=parse_tag, default=[], dest="tags",
        help="only runs with this tag; may be repeated",
    )  # fmt: skip
    set_completer(tag, complete_tags)


def filter_of(options: argparse.Namespace) -> RunFilter:
    """Return the RunFilter that the command-line options of `list` describe. Raise UsageError if a state or a time is
    invalid."""
    from worldsize.store.started_from import started_from

    here = started_from(load_current_config().home, current_directory()) if options.here else None
    since = None if options.since is None else parse_since(options.since, time.time())
    state, tags = parse_state(options.state), tuple(options.tags)
    return RunFilter(state, options.name, options.compute, since, options.experiment, tags, here)


def parse_since(text: str, now: float) -> float:
    """Parse the value of `--since` into Unix seconds: an age before `now` (7d, 12h), or a date and a local time of day
    (2026-11-20, 2026-11-20T14:30). Raise UsageError for other text."""
    try:
        if re.match(r"\d{4}-", text):
            return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
        return now - parse_age(text.removesuffix("ago").strip(), "--since")
    except (ValueError, OverflowError):
        what = f"{text[:40]!r} is not a time"
    except UsageError as error:
        what = error.what
    raise UsageError(what, "--since", "an age, or a date: 7d, 12h, 30m, 2026-11-20, 2026-11-20T14:30")


def complete_states(**_: Any) -> list[str]:
    return [name for name in vars(RunState) if name.isupper() and name != "FINAL"]


def parse_state(text: str | None) -> str | None:
    known = complete_states()
    if text is not None and text.upper() not in known:
        raise UsageError(f"there is no state {text}", "--state", f"one of {', '.join(known)}")
    return text.upper() if text else None


def complete_experiments(**_: Any) -> list[str]:
    return sorted({each.experiment_name for each in _ended_summaries() if each.experiment_name})


def complete_tags(**_: Any) -> list[str]:
    return sorted({f"{name}={value}" for each in _ended_summaries() for name, value in each.tags.items()})


def _ended_summaries() -> list[Summary]:
    """Return the summaries of those of the newest 50 runs that have ended, from which shell completions of labels are
    made. No compute is queried for a completion."""
    from worldsize.store.find import list_ids
    from worldsize.store.runs import runs_link_dir
    from worldsize.store.summaries import final_summary

    home = load_current_config().home
    found = (final_summary(f"{runs_link_dir(home)}/{run_id}/result.json") for run_id in list_ids(home, _COMPLETED))
    return [each for each in found if each is not None]


def parse_tag(text: str) -> tuple[str, str | None]:
    """Parse the value of the option `--tag`. Return KEY and VALUE of "KEY=VALUE". For "KEY" alone the value is None,
    which accepts any value. Raise ArgumentTypeError if there is no key."""
    name, equals, value = text.partition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"{text!r:.40} has no key")
    return name, value if equals else None
