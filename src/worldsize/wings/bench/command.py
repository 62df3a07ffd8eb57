"""The command `bench`: measures a training, or a part of the machine, at several world sizes, and writes a curve, a
table and a page."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module

from worldsize.cli.console import (
    add_output_option,
    add_set_option,
    complete_computes,
    complete_job_files,
    current_directory,
    load_current_config,
    parse_seconds,
    set_completer,
)
from worldsize.cli.output import report, show, show_json
from worldsize.common.named_tuple import Any, cast
from worldsize.errors import UsageError
from worldsize.jobspec.config.config import Config
from worldsize.service.computes import choose_compute
from worldsize.wings.bench.kinds import KINDS, Benchmark
from worldsize.wings.bench.worlds import World, parse_worlds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.wings.bench.result import BenchResult
    from worldsize.wings.bench.session import Session

_JOB = "job"
_USAGE = "worldsize bench [options] resnet50 | allreduce | launch | JOB.YML | SCRIPT.PY | -- COMMAND …"
_EXAMPLES = """examples:
  worldsize bench resnet50 -w 1x1,1x2,2x2               the standard network, synthetic data
  worldsize bench job.yml -w 1x1,1x4,2x4 --metric images_per_second
  worldsize bench job.yml -w 1,2,4                      how long your own training takes on 1, 2 and 4 ranks
  worldsize bench -w 1,2 -- python train.py --epochs 1
  worldsize bench allreduce -w 2x8 --sizes 8B:1GB       bus bandwidth, as nccl-tests prints it
  worldsize bench launch -w 1x4                         worldsize and every launcher found here
  worldsize bench resnet50 -w 4x8 --compute lab --against before/result.json

Results are written to a directory as soon as they are measured: result.json, result.csv, scaling.svg and .png,
report.html. The same command with --to DIR continues where it stopped.

The exit code is 0, 1 where a run failed, 2 for a mistake in the words or the job, 130 after a Ctrl-C."""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.usage = _USAGE
    what = parser.add_argument(
        "what", nargs="?", metavar="WHAT", help="resnet50, allreduce, launch, a job file, or a script"
    )
    set_completer(what, complete_what)
    parser.add_argument(
        "-w", "--worlds", metavar="WORLDS", help="N nodes × M ranks per node, such as 1x1,1x2,2x2; M alone: one node"
    )
    compute = parser.add_argument("--compute", metavar="NAME", help="where (default: from the job or configuration)")
    set_completer(compute, complete_computes)
    parser.add_argument(
        "--environment", metavar="NAME", help="the environment of the ranks, as `environment:` of a job"
    )
    add_set_option(parser)
    parser.add_argument(
        "--timeout",
        type=parse_seconds,
        metavar="SECONDS",
        help="cancel a run after this time, the time in a queue included",
    )
    parser.add_argument(
        "--to",
        metavar="DIR",
        help="where the result is written (default: bench-WHAT-<time> here); continues an interrupted one",
    )
    parser.add_argument("--against", metavar="FILE", help="compare with an earlier result.json, or its directory")
    parser.add_argument("--dry-run", action="store_true", help="print the runs; start nothing")
    add_output_option(parser)
    for kind, benchmark in _benchmarks():
        benchmark.add_options(_group(parser, kind))
    parser.set_defaults(act=bench)


def complete_what(prefix: str, **more: Any) -> list[str]:
    return [*(kind for kind in KINDS if kind != _JOB), *complete_job_files(prefix, **more)]


def bench(options: argparse.Namespace) -> int:
    """Run the benchmark that the parsed `options` of `worldsize bench` name, write the result files into its directory,
    and show the result. With --dry-run, only print its runs. Return the exit code. Raise UsageError."""
    from worldsize.wings.bench.directory import default_directory, locked_directory
    from worldsize.wings.bench.result_file import read_result

    kind = _kind_of(options.what, options.words)
    _refuse_options_of_others(options, kind)
    if options.dry_run and options.output == "json":
        raise UsageError("the runs are shown as text only", "--dry-run", "leave -o json out")
    config = load_current_config()
    against = read_result(options.against) if options.against else None
    worlds = _worlds(options, config, kind)
    directory = os.path.abspath(options.to or default_directory(kind, time.time()))
    session = _session(options, config, worlds, directory)
    if options.dry_run:
        _benchmark(kind).measure(options, session)
        return 0
    with locked_directory(directory):
        result, code = _measure(options, session, kind)
        return max(code, _finish(result, directory, options.output == "json", against))


def _measure(options: argparse.Namespace, session: Session, kind: str) -> tuple[BenchResult, int]:
    """Run the benchmark of the given `kind` with `session`. Return its result, and the exit code: 0, or that of an
    interruption that ended it early."""
    from worldsize.wings.bench.session import Interrupted

    try:
        return _benchmark(kind).measure(options, session), 0
    except Interrupted as left:
        return left.result, left.code


def _finish(result: BenchResult, directory: str, as_json: bool, against: BenchResult | None) -> int:
    """Show the benchmark's result, and write its CSV file, pictures and page into `directory` if that contains the
    result file. Return the exit code: 1 if a measurement failed, otherwise 0."""
    from worldsize.wings.bench.output.derived import result_data
    from worldsize.wings.bench.output.files import write_files
    from worldsize.wings.bench.output.terminal import result_lines
    from worldsize.wings.bench.result_file import RESULT

    is_kept = os.path.lexists(os.path.join(directory, RESULT))
    written = write_files(result, directory, against) if is_kept else []
    if as_json:
        show_json({**result_data(result, against), "directory": directory})
    else:
        show(*result_lines(result, against))
    if written:
        report("", f"{directory}: result.json, {', '.join(map(os.path.basename, written))}")
    return 1 if any(each.failure for each in result.measurements) else 0


def _session(options: argparse.Namespace, config: Config, worlds: tuple[World, ...], directory: str) -> Session:
    from worldsize.wings.bench.session import Session

    environment = [f"environment={options.environment}"] if options.environment else []
    settings = (*environment, *options.sets)
    return Session(
        config,
        options.compute,
        os.environ,
        current_directory(),
        directory,
        worlds,
        settings,
        options.timeout,
        options.dry_run,
        sys.argv,
        {"environment": "--environment"} if options.environment else {},
    )


def _kind_of(what: str | None, words: Sequence[str] | None) -> str:
    """Return the kind of benchmark that the argument `what` of `worldsize bench` names; "job" for a file that exists,
    or for the `words` of a command after `--`. Raise UsageError for anything else."""
    if words is not None:
        if what is not None:
            raise UsageError(f"both {what} and a command after --", None, "give one of them")
        return _JOB
    if what is None:
        raise UsageError("nothing to measure", None, "worldsize bench resnet50, or a job file")
    if what in KINDS and what != _JOB:
        return what
    if os.path.exists(what):
        return _JOB
    from worldsize.cli.suggestions import missing_file_error

    if what.endswith((".yml", ".yaml", ".py")) or os.sep in what:
        raise missing_file_error(what)
    kinds = ", ".join(kind for kind in KINDS if kind != _JOB)
    raise UsageError(f"{what!r:.100} is not a benchmark", None, f"{kinds}, or a job file that exists")


def _worlds(options: argparse.Namespace, config: Config, kind: str) -> tuple[World, ...]:
    """Return the worlds (nodes and ranks per node) that the option -w of `worldsize bench` lists, otherwise the usual
    ones of the compute. Return none for a job without -w, which may name its compute itself. Raise UsageError."""
    if options.worlds is not None:
        return parse_worlds(options.worlds)
    if kind == _JOB:
        return ()
    from worldsize.wings.bench.session import usual_worlds

    return usual_worlds(config, choose_compute(config, options.compute, None))


def _benchmark(kind: str) -> Benchmark:
    return cast("Benchmark", import_module(KINDS[kind]))


def _benchmarks() -> Iterator[tuple[str, Benchmark]]:
    return ((kind, _benchmark(kind)) for kind in KINDS)


class _Group:
    """A group of options that records them, so that they can be refused with another benchmark."""

    def __init__(self, group: Any) -> None:
        self._group = group
        self.actions: list[argparse.Action] = []

    def add_argument(self, *names: str, **how: Any) -> argparse.Action:
        """Add an option of one kind of benchmark to the parser and return its action. If another kind has added the
        same option before, return the action of that kind's option."""
        try:
            action: argparse.Action = self._group.add_argument(*names, **how)
        except argparse.ArgumentError:
            action = next(each for each in _known_actions() if each.option_strings[-1] == names[-1])
        self.actions.append(action)
        return action


def _known_actions() -> list[argparse.Action]:
    return [action for group in _groups.values() for action in group.actions]


_groups: dict[str, _Group] = {}


def _group(parser: argparse.ArgumentParser, kind: str) -> _Group:
    title = "a job of your own" if kind == _JOB else kind
    _groups[kind] = _Group(parser.add_argument_group(title))
    return _groups[kind]


def _refuse_options_of_others(options: argparse.Namespace, kind: str) -> None:
    """Raise UsageError for the first option that belongs only to another kind of benchmark than `kind` and whose value
    is not its default, in the order of the kinds' options. Kinds may share an option by its destination."""
    own = {action.dest for action in _groups[kind].actions}
    values: Mapping[str, Any] = vars(options)
    for other, group in _groups.items():
        for action in group.actions:
            if action.dest not in own and values[action.dest] != action.default:
                name = action.option_strings[-1]
                meant = "with a job of your own" if other == _JOB else f"with `bench {other}`"
                raise UsageError(f"{name} goes {meant}", None, "leave it out")
