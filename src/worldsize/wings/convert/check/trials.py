"""Trials of the first steps of a training: the original, and the converted one on one rank and on two, in copies of its
project."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from worldsize.agent.posix.network import LOOPBACK, cut_network
from worldsize.agent.posix.processes import end_with_parent, find_program
from worldsize.common.atomic_files import read_if_possible
from worldsize.errors import UsageError
from worldsize.wings.convert.check.project_copies import copy_project
from worldsize.wings.convert.check.records import TIMED_OUT, TIMEOUT, Record, read_record

_MOST_SECONDS = 24 * 3600.0
STEPS = 4
_ENOUGH = 0.15
"""The share of the time limit that the original has after its first step; after that it makes no further step."""
_LATEST = 0.75
"""The share of the original's own time limit after which it makes no further step."""
_ORIGINAL, _ALONE = 0.4, 0.65
"""The shares of the time limit by which the original, and then the result on one rank, must have ended."""
_SLOWER = 3
"""The multiple of the original's time that a version may take before it counts as stuck."""
_LEFT_BEHIND = 5.0
"""Seconds that the other ranks have to end after one has failed."""
_RANK_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_START = os.path.join(os.path.dirname(os.path.dirname(__file__)), "inrank", "start.py")
_SETTINGS = {
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "HF_HUB_OFFLINE": "1", "MPLBACKEND": "Agg", "NCCL_SOCKET_IFNAME": "lo",
    "PYTHONDONTWRITEBYTECODE": "1", "TORCHDYNAMO_DISABLE": "1", "WANDB_MODE": "disabled", **LOOPBACK,
}  # fmt: skip


class Training(NamedTuple):
    """A training to try. `script` and the paths of `texts`, the converted files, are relative to the directory
    `project`. `helpers` is the path among them of convert's helpers."""

    project: str
    script: str
    arguments: Sequence[str]
    texts: Mapping[str, str]
    helpers: str


class Trials(NamedTuple):
    """The records of the trials, one for each rank. There are none for a trial that was skipped because an earlier one
    failed."""

    original: Record
    alone: tuple[Record, ...] = ()
    two: tuple[Record, ...] = ()
    network: str = ""
    """The reason why the network could not be cut off; "" if it was cut off."""
    too_slow: str = ""
    """The reason why a version that timed out may be slow and not stuck; "" if all versions had enough time."""


def run_trials(training: Training, directory: str, tell: Callable[[str], None], seconds: float) -> Trials:
    """Run the trials of a training in the empty directory `directory`: the original, the converted one on one rank, and
    on two. They take at most `seconds` together, and at most a day. Return the Trials with their records. `tell`
    receives the name of the current trial. No process is left behind. Raise UsageError if there is no Python, or too
    much to copy."""
    start, seconds = time.monotonic(), min(seconds, _MOST_SECONDS)
    python = _find_python()
    for name in ("original", "converted", "temporary", "records"):
        os.mkdir(os.path.join(directory, name))
    copy_project(training.project, os.path.join(directory, "original"), {})
    copy_project(training.project, os.path.join(directory, "converted"), training.texts)
    trial = _Trial(training, directory, python, _ENOUGH * seconds)
    tell("check: the original")
    begun = time.monotonic()
    (original,) = trial.run("original", 1, STEPS, start + _ORIGINAL * seconds)
    taken = time.monotonic() - begun
    trials = Trials(original, network=trial.network)
    for ranks, until in ((1, start + _ALONE * seconds), (2, start + seconds)):
        if len((trials.alone or (original,))[0].steps) < len(original.steps) or not original.steps:
            break
        tell(f"check: converted, on {ranks} rank{'s' * (ranks > 1)}")
        given = until - time.monotonic()
        records = trial.run("converted", ranks, len(original.steps), until)
        trials = trials._replace(alone=records) if ranks == 1 else trials._replace(two=records)
        if any(record.end == TIMEOUT for record in records) and is_too_short(given, taken):
            trials = trials._replace(too_slow=f"the original alone took {taken:.0f} of {seconds:.0f} s")
    return trials


def is_too_short(given: float, taken: float) -> bool:
    """Return whether a converted training that has not ended in `given` seconds may be slow and not stuck, if the
    original took `taken` seconds."""
    return given < _SLOWER * taken


class _Trial:
    """A runner for the trials of a training. `enough` is the number of seconds after the first step from which on the
    original makes no further step."""

    def __init__(self, training: Training, directory: str, python: str, enough: float) -> None:
        self._enough = enough
        self._training = training
        self._directory = directory
        self._python = python
        self._count = 0
        self.network = ""

    def run(self, copy: str, ranks: int, steps: int, until: float) -> tuple[Record, ...]:
        """Run `steps` steps of the project's copy "original" or "converted" on each of `ranks` ranks, at most until
        `until` (`time.monotonic`). Return the Record of each rank."""
        self._count += 1
        base = os.path.join(self._directory, "records", str(self._count))
        folder = os.path.join(self._directory, copy)
        records = [f"{base}-{rank}.json" for rank in range(ranks)]
        logs = [f"{base}-{rank}.log" for rank in range(ranks)]
        now = time.monotonic()
        until = max(until, now + 1.0)
        seconds = until - now
        is_original = copy == "original"
        commands = []
        for record in records:
            order = {
                "record": record, "peers": records, "writable": [folder, os.path.join(self._directory, "temporary")],
                "helpers": os.path.join(folder, self._training.helpers), "steps": steps, "until": until,
                "enough": self._enough if is_original else 2 * seconds,
                "latest": now + (_LATEST if is_original else 2) * seconds,
            }  # fmt: skip
            with open(record + ".order", "w", encoding="utf-8") as file:
                json.dump(order, file)
            script = os.path.join(folder, self._training.script)
            commands.append([self._python, _START, record + ".order", script, *self._training.arguments])
        process = multiprocessing.get_context("fork").Process(
            target=_run_ranks, args=(commands, logs, folder, self._environ(), until, base)
        )
        process.start()
        try:
            process.join()
        finally:
            process.join()  # after Ctrl-C, too: the process stops its ranks
        self.network = read_if_possible(base + ".network").decode()
        real = os.path.realpath(folder)
        helpers = self._training.helpers
        return tuple(read_record(record, log, real, helpers) for record, log in zip(records, logs, strict=True))

    def _environ(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in _RANK_VARIABLES}
        environ = {**kept, **_SETTINGS, "TMPDIR": os.path.join(self._directory, "temporary")}
        if _gpu_count() < 2:  # two ranks cannot share one GPU
            environ["CUDA_VISIBLE_DEVICES"] = ""
        return environ


def _find_python() -> str:
    for name in ("python", "python3"):
        try:
            return find_program(name, os.environ)
        except OSError:
            continue
    raise UsageError("cannot be checked: there is no python on PATH", "convert")


def _gpu_count() -> int:
    return sum(re.fullmatch(r"nvidia\d+", name) is not None for name in os.listdir("/dev"))


def _run_ranks(
    commands: Sequence[Sequence[str]], logs: Sequence[str], folder: str, environ: Mapping[str, str],
    until: float, base: str,
) -> None:  # fmt: skip
    """Cut off the network of this process, start a rank of a trial for each command, and wait for their end. Runs in a
    separate process. `until` is the time (`time.monotonic`) at which the ranks end themselves. `base` is the path of
    the trial's files without suffix."""
    end_with_parent(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    network = ""
    try:
        cut_network()
    except OSError as error:
        network = error.strerror or str(error)
    with open(base + ".network", "w", encoding="utf-8") as file:
        file.write(network)
    port = _free_port()
    ranks: list[subprocess.Popen[bytes]] = []
    try:
        for number, (command, log) in enumerate(zip(commands, logs, strict=True)):
            ranks.append(_start(command, log, folder, {**environ, **_rank_variables(number, len(commands), port)}))
        for number in _wait(ranks, until):
            _note_timeout(logs[number])
    except KeyboardInterrupt:
        pass
    finally:
        for rank in ranks:
            _kill(rank)


def _rank_variables(number: int, count: int, port: int) -> dict[str, str]:
    threads = str(max(1, (os.cpu_count() or 1) // count))
    if count == 1:
        return {"OMP_NUM_THREADS": threads}
    rank = {"RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
    return {**rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": threads}


def _start(command: Sequence[str], log: str, folder: str, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    with open(log, "wb") as file:
        return subprocess.Popen(
            command, cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )


def _wait(ranks: Sequence[subprocess.Popen[Any]], until: float) -> list[int]:
    """Wait until all ranks of a trial have ended. Stop waiting for ranks that run on after another one has failed, or
    beyond their time limit. Return the numbers of those beyond their time limit."""
    until += _LEFT_BEHIND
    while any(rank.poll() is None for rank in ranks) and time.monotonic() < until:
        if any(rank.poll() for rank in ranks):
            until = min(until, time.monotonic() + _LEFT_BEHIND)
        time.sleep(0.02)
    has_failed = any(rank.poll() for rank in ranks)
    return [number for number, rank in enumerate(ranks) if not has_failed and rank.poll() is None]


def _note_timeout(log: str) -> None:
    """Write the timeout message to the log of a process that timed out before its own timer ran, while it still
    imported torch."""
    with open(log, "a", encoding="utf-8") as file:
        file.write(f"\n{TIMED_OUT}not yet in the script\n")


def _kill(rank: subprocess.Popen[Any]) -> None:
    """Kill the process of a rank of a trial and every process that it has started, and wait for its end."""
    try:
        os.killpg(rank.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    rank.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
