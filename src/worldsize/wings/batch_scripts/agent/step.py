"""The execution of a step: starts its tasks, watches them, terminates them together, and determines which task failed
first.

It does on one machine what the real srun does with its tasks. A failed task terminates the others if the step has
`--kill-on-bad-exit`. Signals reach all tasks, and no process that a task started remains.
"""

from __future__ import annotations

import errno
import os
import selectors
import signal
import sys
import time
from collections.abc import Mapping, Sequence

from worldsize.agent.outcome.rank_failure import (
    code_after_exception,
    oom_kills,
    rank_failure,
    read_error,
    start_failure,
)
from worldsize.agent.posix import processes
from worldsize.agent.posix.signals import STOP, STOP_NOW, SignalPipe
from worldsize.common.atomic_files import try_unlink
from worldsize.plan.run_paths import RunPaths
from worldsize.state.exit_records import signal_name
from worldsize.state.first_failure import first_failure
from worldsize.state.records import Failure
from worldsize.wings.batch_scripts.agent.step_end import step_end
from worldsize.wings.batch_scripts.agent.step_size import Allocation
from worldsize.wings.batch_scripts.agent.task_environment import Step, StepTask, exported_environment, task_environment
from worldsize.wings.batch_scripts.agent.task_streams import OutputRelay, StreamOpener, TaskStreams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_FORWARDED = (signal.SIGUSR1, signal.SIGUSR2)
_MISSING = 2
"""The exit code of srun for a program that does not exist on a node."""


class StepRun:
    """The execution of a step. `run()` returns the exit code of srun. `failure` is the first failure of its tasks, if
    any. `stopped` is whether a signal requested the end of the step. `argv` contains the words of each task."""

    def __init__(
        self, step: Step, paths: RunPaths, allocation: Allocation, grace: float, argv: Sequence[tuple[str, ...]]
    ) -> None:
        self.failure: Failure | None = None
        self.stopped = False
        self._step = step
        self._paths = paths
        self._allocation = allocation
        self._grace = grace
        self._argv = argv
        self._running: dict[int, StepTask] = {}
        self._failures: list[Failure] = []
        self._oom_kills = oom_kills()
        self._stopped_at = 0.0
        self._selector = selectors.DefaultSelector()
        self._relays = 0

    def run(self) -> int:
        processes.become_subreaper()
        signals = SignalPipe()
        self._selector.register(signals, selectors.EVENT_READ, lambda: self._handle_signals(signals.take()))
        signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)  # until all tasks are running and can receive them
        for number in _FORWARDED:
            signal.signal(number, self._forward_signal)
        self._end = step_end(self._step.srun, self._grace, time.monotonic())
        self._start()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
        while self._running or self._terminate_leftovers() or self._relays:
            for key, _ in self._selector.select(self._end.pause(time.monotonic(), bool(self._running))):
                key.data()
            self._reap()
            self._tick(time.monotonic())
        self.failure = first_failure(self._failures)
        return self._end.exit_code()

    # starting

    def _start(self) -> None:
        base = exported_environment(self._step.srun, os.environ)
        opener = StreamOpener(self._step, self._paths)
        for task in self._step.tasks:
            error_file = self._paths.rank_error(task.rank)
            for stale in (error_file, error_file + ".torchelastic"):
                try_unlink(stale)
            environment = task_environment(self._step, task, base, self._allocation, error_file)
            if not self._spawn(task, self._argv[task.number], environment, opener):
                break
        opener.close()

    def _spawn(
        self, task: StepTask, argv: tuple[str, ...], environment: Mapping[str, str], opener: StreamOpener
    ) -> bool:
        try:
            streams = opener.open(task)
        except OSError as error:
            self._record_start_failure(task, error.filename or "output", error, 1)
            return False
        try:
            self._running[_spawn_task(argv, environment, streams, self._step.umask)] = task
        except OSError as error:
            self._record_start_failure(task, argv[0], error, _MISSING)
        finally:
            streams.close()
        for relay in streams.relays:
            self._relays += 1
            self._selector.register(relay.fd, selectors.EVENT_READ, lambda relay=relay: self._pass_on(relay))
        return True

    def _record_start_failure(self, task: StepTask, what: str, error: OSError, code: int) -> None:
        print_as_srun(f"error: {task.host}: {what}: {error.strerror}")
        failure = start_failure(what, task.rank, task.place, error, self._paths.root, False)
        self._failures.append(failure._replace(code=code))
        self._end.record_unstarted(code)

    def _pass_on(self, relay: OutputRelay) -> None:
        if not relay.read():
            self._selector.unregister(relay.fd)
            relay.close()
            self._relays -= 1

    # ending

    def _reap(self) -> None:
        now = time.time()
        for pid, code in processes.reap():
            task = self._running.pop(pid, None)
            if task is None:
                continue
            if self._end.code is None:
                failure = self._failure(task, code, now) if code else None
                self._end.record_ended(code, failure, time.monotonic())
            elif code:
                self._record_earlier_error(task, code, now)

    def _failure(self, task: StepTask, code: int, ended: float) -> Failure:
        processes_oom = oom_kills() > self._oom_kills >= 0
        error = read_error(self._paths, task.rank)
        failure = rank_failure(task.rank, self._node(task), task.host, code, ended, error, processes_oom)
        self._failures.append(failure)
        name = signal_name(code)
        how = name if name else f"Exited with exit code {code}"
        print_as_srun(f"error: {task.host}: task {task.number}: {how}")
        return failure

    def _record_earlier_error(self, task: StepTask, code: int, ended: float) -> None:
        """Record the failure of a task that ended with `code` after the step was requested to end, if the task had
        raised an exception before that request."""
        error = read_error(self._paths, task.rank)
        if error is None:
            return
        failure = rank_failure(
            task.rank, self._node(task), task.host, code_after_exception(code), ended, error, oom_killed=False
        )
        if failure.time < self._stopped_at:
            self._failures.append(failure)

    def _node(self, task: StepTask) -> int:
        return self._allocation.hosts.index(task.host)

    def _stop(self, code: int, why: str) -> None:
        """Request the end of the step with the exit code `code`: send TERM to all tasks now, and KILL after the grace
        period. If tasks are running, print that the step is terminated, followed by `why`. Does nothing after the first
        request."""
        if not self._end.request(code, time.monotonic()):
            return
        self._stopped_at = time.time()
        if self._running:
            print_as_srun(f"Terminating StepId={os.environ.get('SLURM_JOB_ID', '0')}.{self._step.number}{why}")
        for pid in self._running:
            processes.signal_group(pid, signal.SIGTERM)

    def _handle_signals(self, numbers: set[int]) -> None:
        if numbers & STOP or STOP_NOW in numbers:
            self.stopped = True
            self._stop(128 + signal.SIGTERM, "")
        if STOP_NOW in numbers:
            self._end.request_kill(time.monotonic())

    def _forward_signal(self, number: int, _: object) -> None:
        for pid in self._running:
            processes.signal_process(pid, number)

    def _terminate_leftovers(self) -> bool:
        """Send TERM, once, to the processes that the step's ended tasks have left. They are terminated when the step
        ends. Return whether any of these processes remain."""
        left = processes.children()
        if left and self._end.request_end_of_leftovers(time.monotonic()):
            for pid in left:
                processes.signal_process(pid, signal.SIGTERM)
                processes.signal_process(pid, signal.SIGCONT)
        return bool(left)

    def _tick(self, now: float) -> None:
        code, code_of_limit = self._end.code_due(now), self._end.code_of_time_limit(now)
        if code is not None:
            self._stop(code, "")
        if code_of_limit is not None:
            self._stop(code_of_limit, " DUE TO TIME LIMIT")
        if self._end.is_overdue(now):
            for pid in processes.descendants():
                processes.signal_process(pid, signal.SIGKILL)


def print_as_srun(text: str) -> None:
    """Print `text` on srun's standard error, in srun's format. Drop it if standard error cannot be written."""
    try:
        sys.stderr.write(f"srun: {text}\n")
        sys.stderr.flush()
    except OSError:
        pass


def _spawn_task(argv: tuple[str, ...], environment: Mapping[str, str], streams: TaskStreams, umask: int) -> int:
    """Start the program `argv` as a task of a step, with the given environment and standard streams, and return its
    pid. The task finds its pid in SLURM_TASK_PID, leads its own session and has the given `umask`.

    Raise OSError if it cannot be started.
    """
    program = processes.find_program(argv[0], environment)
    reading, writing = os.pipe()
    held = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    with open(reading, "rb") as pipe:
        try:
            pid = os.fork()  # not posix_spawn: only a forked process knows its pid before it executes the program
            if pid == 0:
                _execute(program, argv, environment, streams, umask, writing)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
            os.close(writing)
        number = pipe.read()
    if number:
        os.waitpid(pid, 0)
        raise OSError(int(number), os.strerror(int(number)), program)
    return pid


def _execute(
    program: str,
    argv: tuple[str, ...],
    environment: Mapping[str, str],
    streams: TaskStreams,
    umask: int,
    failed: int,
) -> NoReturn:
    """Replace this process, a fork of srun, by the program of a task. `failed` is the descriptor of a pipe to which the
    number of an error is written; it is closed when the program is executed."""
    try:
        os.setsid()
        os.umask(umask)
        # Copies first, so that none is overwritten before it is duplicated.
        copies = [os.dup(fd) for fd in (streams.stdin, streams.stdout, streams.stderr)]
        for number, fd in enumerate(copies):
            os.dup2(fd, number)
        for each in processes.RESET_SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execve(program, argv, {**environment, "SLURM_TASK_PID": str(os.getpid())})
    except (OSError, ValueError) as error:
        os.write(failed, b"%d" % (getattr(error, "errno", None) or errno.EINVAL))
    finally:
        os._exit(1)
