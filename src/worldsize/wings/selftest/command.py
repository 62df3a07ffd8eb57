"""The command `selftest`, which runs the conformance suite on a compute of the user, and writes a report."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

from worldsize.cli.console import (
    add_output_option,
    complete_computes,
    load_current_config,
    parse_count,
    parse_seconds,
    set_completer,
)
from worldsize.cli.output import report, show, show_json, show_transient_line
from worldsize.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from worldsize.compute.base import Compute
    from worldsize.jobspec.config.config import ComputeSettings
    from worldsize.wings.selftest.lanes import Run

_EXAMPLES = """examples:
  worldsize selftest --compute lab                    at most 15 minutes, jobs of at most 2 nodes
  worldsize selftest --compute lab --nodes 4 --minutes 30
  worldsize selftest --compute lab -k cancel          the tests whose names contain this word"""
_INTERRUPTED = 130
_KEPT_SIGN_IN = {"AZURE_CONFIG_DIR": ".azure", "AZD_CONFIG_DIR": ".azd"}
"""The directories in which `az login` and `azd auth login` store their data, by the variable that names another
directory."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_MINUTES, _LANES, _NODES = {"azureml": 120}, {"local": 1, "azureml": 4}, 2
_USUAL_MINUTES, _USUAL_LANES = 15, 2
"""The defaults for all other types of compute. In a workspace, a job takes minutes to start, and others start
meanwhile."""

_RESERVE, _LAST_RESERVE = 0.1, 0.05
"""Shares of the time at its end: in the first, no test is begun; at the beginning of the second, running tests are
ended."""
_LEAST = 15
"""Seconds before which no test is ended: pytest needs time to start."""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    compute = parser.add_argument("--compute", metavar="NAME", help="the compute (default: as configured)")
    set_completer(compute, complete_computes)
    parser.add_argument("--nodes", metavar="N", type=parse_count, help=f"the most nodes of a job ({_NODES})")
    help = f"tests that have not begun by then are not run ({_USUAL_MINUTES}; on Azure ML {_MINUTES['azureml']})"
    parser.add_argument("--minutes", metavar="N", type=parse_seconds, help=help)
    help = f"tests side by side ({_USUAL_LANES}; on `local` {_LANES['local']}, on Azure ML {_LANES['azureml']})"
    parser.add_argument("--lanes", metavar="N", type=parse_count, help=help)
    parser.add_argument("-k", metavar="WORDS", dest="keyword", default="", help="only these tests, as pytest's -k")
    parser.add_argument("--to", metavar="DIR", default=".", help="directory of the report (default: here)")
    parser.add_argument("--note", metavar="TEXT", default="", help="a sentence for the report")
    parser.add_argument("--simulated", action="store_true", help="mark the cluster as simulated in the report")
    add_output_option(parser)
    parser.set_defaults(act=selftest)


def selftest(options: argparse.Namespace) -> int:
    """Run the conformance suite on the chosen compute, and write the report. Return the exit code: 0 if no test failed
    and nothing is left behind, else 1; 130 after a Ctrl-C."""
    _check(options)
    from worldsize.service.computes import choose_compute, open_compute

    config = load_current_config()
    settings = config.compute(choose_compute(config, options.compute, None))
    environ = _environ(settings)
    compute = open_compute(config, settings.name, environ)
    from worldsize.wings.selftest.private_place import make_private_place, remove_private_place

    _hear_signals()
    private = make_private_place(config, settings)
    left: list[str] = []
    try:
        done = _run(options, settings, compute, private, environ)
    finally:
        _ignore_signals()
        left += remove_private_place(compute, settings.type, private)
        for each in left:
            report(f"left behind: {each}")
    return _finish(options, {**done, "left_behind": left})


def _check(options: argparse.Namespace) -> None:
    from worldsize.extras import require_packages

    require_packages("worldsize selftest", "conformance", "pytest")
    for name in ("nodes", "minutes", "lanes"):
        if getattr(options, name) == 0:
            raise UsageError("0 is too few", f"--{name}", "1 or more")
    if not os.path.isdir(options.to):
        raise UsageError(f"{options.to} is not a directory", "--to", "name an existing directory for the report")


def _environ(settings: ComputeSettings) -> dict[str, str]:
    """Return the environment variables for the clients that the tests of the self-test start in their own home
    directories. Raise ConfigError if a password is needed and no variable contains it: the user cannot enter it for
    each test."""
    from worldsize.trust.procfs import PASSWORD_VARIABLE, with_password

    environ = with_password(os.environ)
    if settings.type == "hpcpack" and not environ.get(PASSWORD_VARIABLE):
        raise ConfigError("the tests need the account's password in a variable", PASSWORD_VARIABLE, "export it")
    if settings.type != "azureml":
        return environ
    return sign_in_environ(settings, environ)


def sign_in_environ(settings: ComputeSettings, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables for a client that runs jobs in an Azure ML workspace from another home
    directory: `environ`, and the locations of Azure's sign-in data. Raise ConfigError if the compute's settings name no
    environment, since the tests' jobs name none."""
    if not settings.options.get("environment"):
        where = f"compute.{settings.name}.environment"
        raise ConfigError("the tests' jobs need an environment to run in", where, 'environment = "azureml:NAME@latest"')
    kept = {name: os.path.expanduser(f"~/{folder}") for name, folder in _KEPT_SIGN_IN.items()}
    return {**{name: path for name, path in kept.items() if os.path.isdir(path)}, **environ}


def _hear_signals() -> None:
    """Make SIGTERM and SIGHUP interrupt the self-test as Ctrl-C does, so that it cleans up."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in _SIGNALS:
        signal.signal(number, interrupt)


def _ignore_signals() -> None:
    """Ignore further signals (Ctrl-C, SIGTERM, SIGHUP), so that an impatient user cannot interrupt the clean-up of the
    self-test."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _run(
    options: argparse.Namespace,
    settings: ComputeSettings,
    compute: Compute,
    private: str,
    environ: Mapping[str, str],
) -> dict[str, Any]:
    """Run the conformance suite on the compute until it ends or is interrupted. Return the facts that the self-test's
    report needs, by name: the results, the versions, the known secrets, whether it was interrupted and others."""
    from worldsize.wings.selftest import facts
    from worldsize.wings.selftest.lanes import Order, Run
    from worldsize.wings.selftest.private_place import target_of

    nodes = min(options.nodes or _NODES, facts.usable_nodes(compute) or sys.maxsize)
    known = facts.known_secrets(settings, compute, private, environ)
    lanes = options.lanes or _LANES.get(settings.type, _USUAL_LANES)
    minutes = options.minutes or _MINUTES.get(settings.type, _USUAL_MINUTES)
    report(f"the conformance suite on {settings.name}: jobs of at most {nodes} nodes, {minutes:g} minutes")
    began, seconds = time.monotonic(), minutes * 60
    begin_by, end_by = began + seconds * (1 - _RESERVE), began + max(seconds * (1 - _LAST_RESERVE), _LEAST)
    target = target_of(settings, private, nodes, environ)
    order = Order(private, target, lanes, begin_by, end_by, options.keyword)
    versions = facts.versions(settings, private, facts.first_line)
    progress = _Progress()
    run = Run(order, environ, progress.take)
    interrupted = False
    try:
        run.follow()
    except KeyboardInterrupt:
        _ignore_signals()
        report("stopping what was started")
        interrupted = True
        run.end()
    progress.clear()
    _require_tests(run, options.keyword)
    return {
        "settings": settings,
        "known": known._replace(hosts=tuple({*known.hosts, *run.hosts})),
        "versions": versions,
        "results": run.all_results(interrupted),
        "interrupted": interrupted,
        "nodes": nodes,
        "seconds": round(time.monotonic() - began),
    }


def _require_tests(run: Run, keyword: str) -> None:
    """Raise an error if the self-test has run no test: UsageError if no test matches `keyword`, ConfigError if pytest
    could not even collect the tests, or not in time."""
    if run.results:
        return
    if keyword and any(lane.process.returncode == 5 for lane in run.lanes):
        raise UsageError(f"no test has such a name: {keyword:.60}", "-k", "words of the names of tests")
    why = "it had not found the tests in time" if run.late else run.lanes[0].last_words()[:200]
    raise ConfigError(f"pytest ran no test: {why}")


def _finish(options: argparse.Namespace, done: dict[str, Any]) -> int:
    from worldsize.wings.selftest.report import make_report, write_report

    settings, known = done["settings"], done["known"]
    made = make_report(
        {"name": settings.name, "type": settings.type, "simulated": options.simulated},
        done["versions"],
        done["results"],
        known,
        date=time.strftime("%Y-%m-%d", time.gmtime()),
        seconds=done["seconds"],
        nodes=done["nodes"],
        note=options.note,
        interrupted=done["interrupted"],
        left_behind=done["left_behind"],
    )
    paths = write_report(made, known, options.to)
    if options.output == "json":
        show_json(made)
    else:
        counts = made["counts"]
        failed = [each for each in made["tests"] if each["outcome"] == "failed"]
        show(*(f"failed: {each['name']}: {each['reason']}" for each in failed))
        show(", ".join(f"{number} {outcome}" for outcome, number in counts.items()) + f" in {made['seconds']} s")
        show(f"left behind: {', '.join(made['left_behind']) or 'nothing'}", *paths)
    if done["interrupted"]:
        return _INTERRUPTED
    return 1 if made["counts"]["failed"] or made["left_behind"] else 0


class _Progress:
    """The progress display: at a terminal one line that changes, elsewhere a line for each test that has ended."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._all = self._ended = 0
        self._running: list[str] = []

    def take(self, event: Mapping[str, Any]) -> None:
        kind, name = event["event"], event.get("test", "")
        if kind == "tests":
            self._all += len(event["tests"])
        elif kind == "begin":
            self._running.append(name)
        elif kind == "end":
            self._end(name, event)
        if self._terminal:
            show_transient_line(f"{self._ended} of {self._all}: {', '.join(self._running)}")

    def _end(self, name: str, event: Mapping[str, Any]) -> None:
        self._ended += 1
        if name in self._running:
            self._running.remove(name)
        if not self._terminal or event["outcome"] == "failed":
            self.clear()
            report(f"{event['outcome']}  {name}  {event['seconds']} s")

    def clear(self) -> None:
        if self._terminal:
            show_transient_line()
