"""The verb debug: it runs a job as one rank on this machine, with the terminal attached to the rank."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys

from worldsize.cli.console import (
    add_set_option,
    complete_job_files,
    current_directory,
    load_current_config,
    set_completer,
)
from worldsize.cli.output import report, report_message, state_text
from worldsize.cli.run.job_source import requested_job
from worldsize.cli.run.run import start_run
from worldsize.cli.run.run_options import key_origins, with_options
from worldsize.common.named_tuple import Any
from worldsize.common.numbers import parse_digits
from worldsize.errors import UsageError
from worldsize.jobspec.config.compute_types import LOCAL
from worldsize.jobspec.config.config import Config
from worldsize.jobspec.job import Job, is_array_job
from worldsize.plan.run_paths import RunPaths
from worldsize.service.request import SubmissionRequest
from worldsize.service.runs.run import Run
from worldsize.state.exit_records import read_events

_EXAMPLES = """examples:
  worldsize debug job.yml                               breakpoint() and pdb have this terminal
  worldsize debug -- python -m pdb train.py             no file: the code is this directory
  worldsize debug job.yml --set inputs.lr=0.1 < answers.txt

It is the run that `worldsize run` makes of the job, on this machine, with one node, one rank and no time limit. The
rank's output goes to this terminal unchanged, and to no log. Ctrl-C and Ctrl-\\ go to the rank, Ctrl-Z does nothing.
The exit code is the rank's."""

_UNSAID = ("data_parallel", "nodes", "nproc_per_node", "timeout", "virtual_gpus", "world")
"""Options of `run` that make no sense for one rank at a terminal."""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    job = parser.add_argument("job", nargs="?", metavar="JOB.YML", help="the job file; or a command after --")
    set_completer(job, complete_job_files)
    parser.add_argument("--code", metavar="DIR", help="with a command after --: the code to snapshot (default: here)")
    add_set_option(parser)
    parser.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="a variable of the rank; may be repeated"
    )
    parser.add_argument("--name", help="the run's display name")
    parser.usage = f"worldsize {verb} [options] (JOB.YML | -- COMMAND …)"
    parser.set_defaults(act=debug, tags=[], **dict.fromkeys(_UNSAID))


def debug(options: argparse.Namespace) -> int:
    job, warnings, lines = requested_job(options)
    job, _ = with_options(job, options, again=False)
    for warning in warnings:
        report_message("warning: " + warning)
    config = load_current_config()
    compute = _local_compute(config, job)
    origins = key_origins(options, job, lines)
    request = SubmissionRequest(
        to_single_rank(job),
        config,
        compute,
        os.environ,
        current_directory(),
        origins,
        sys.argv,
        check={},
        terminal=True,
    )
    loan = TerminalLoan()

    def submitting(paths: RunPaths) -> None:
        report(f"run {paths.run_id}: 1 node, 1 rank on {compute}, without a time limit; its output is in no log")
        loan.begin(Run(paths, os.environ))

    try:
        run = Run(start_run(request, submitting), os.environ)
        status = run.follow(loan.lend, None, None, lambda _: False)[0]
    finally:
        loan.end()
    report(f"run {run.id} {state_text(status.state, sys.stderr)}: exit code {status.exit_code}")
    if status.failure is not None and status.failure.rank is None:
        report_message(status.message)
    return status.exit_code or 0


def _local_compute(config: Config, job: Job) -> str:
    """Return the name of the compute for `debug`: the job's own, if that is this machine; else the local compute that
    every configuration has."""
    from worldsize.service.computes import requested_compute

    name = requested_compute(config, None, job.compute)[0]
    return name if name in config.computes and config.computes[name].type == LOCAL else LOCAL


def to_single_rank(job: Job) -> Job:
    """Return the job with one node and one rank, which is started without a launcher. Raise UsageError if the job is
    several runs, or if its ranks have roles."""
    if is_array_job(job):
        what = "one run is debugged at a time, and the job is several"
        raise UsageError(what, None, "leave out matrix, count and autotune, and use --set inputs.NAME=VALUE")
    from worldsize.jobspec.distribution import processes_per_instance
    from worldsize.jobspec.overrides import with_world

    kind = job.distribution
    if kind is not None and processes_per_instance(kind) is None:
        what = f"the ranks of a {kind.type} job have roles: it cannot be one rank"
        raise UsageError(what, "distribution", "leave distribution out, or debug one of its ranks: run --debugpy RANK")
    if kind is not None and kind.type == "pytorch":
        from worldsize.jobspec.distributions.pytorch import PyTorchDistribution

        job = job._replace(distribution=PyTorchDistribution())
    return with_world(job, "1x1", "debug")._replace(data_parallel=None)


class TerminalLoan:
    """The terminal that this process was started from, lent to the run's rank from its start to its end. Keys such as
    Ctrl-C then reach only the rank's process group.

    If this process has no terminal, or is not in its foreground, nothing is lent: a Ctrl-C that reaches this process
    cancels the run.
    """

    def __init__(self) -> None:
        self._run: Run | None = None
        self._lent = False
        self._file: int | None = None
        self._settings: list[Any] = []
        with contextlib.suppress(OSError):
            self._file = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
            if os.tcgetpgrp(self._file) != os.getpgrp():
                self._file = None

    def begin(self, run: Run) -> None:
        """Set the signal handlers so that, from now on, a signal that requests the end of this process cancels `run`.
        Save the terminal's settings."""
        self._run = run
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._cancel)
        if self._file is not None:
            import termios

            self._settings = termios.tcgetattr(self._file)

    def lend(self) -> bool:
        """Make the process group of the run's rank the terminal's foreground group, once the rank has started. Return
        whether this call has lent the terminal."""
        if self._file is None or self._lent or self._run is None:
            return False
        leader = _rank_process(self._run.paths)
        if leader is None:
            return False
        self._lent = True
        with contextlib.suppress(OSError):  # the rank has ended by now
            os.tcsetpgrp(self._file, leader)
            os.killpg(leader, signal.SIGCONT)  # it was stopped if it has read from the terminal before
        return True

    def end(self) -> None:
        """Make this process the terminal's foreground group again, and restore the terminal's settings. Do nothing if
        the terminal was not lent to the rank."""
        if self._file is None or not self._lent:
            return
        import termios

        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        with contextlib.suppress(OSError, termios.error):  # the terminal is closed
            os.tcsetpgrp(self._file, os.getpgrp())
            termios.tcsetattr(self._file, termios.TCSADRAIN, self._settings)

    def _cancel(self, *_: object) -> None:
        if self._run is not None:
            self._run.cancel()


def _rank_process(paths: RunPaths) -> int | None:
    """Return the pid of the run's rank 0, which leads a process group, from the events of node 0; None before the rank
    is started."""
    for event in read_events(paths, 0):
        if event.get("event") == "ranks_started":
            pids = event.get("pids")
            return parse_digits(str(pids.get("0"))) if isinstance(pids, dict) else None
    return None
