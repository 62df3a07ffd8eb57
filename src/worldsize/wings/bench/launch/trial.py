"""A single start of a launcher, with its times. All processes that it has started are terminated afterwards."""

from __future__ import annotations

import os
import re
import secrets
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple

MARK = "WORLDSIZE_BENCH_TRIAL"
"""The variable that all processes of a trial inherit. Its value is used to find all of them on this machine."""
_LINE = re.compile(rb"worldsize-bench (first|step|failing) (\d{1,7}) (\d{1,19}) ([\w.-]{1,255});")
_BAD = re.compile(r"(?i)error|\bnot\b|cannot|fail|refuse|denied|no such|unable|invalid|unrecognized")
_LONGEST_LINE = 1 << 16
_KEPT = 4000
FAILS_AFTER = 0.2
"""Seconds from the line in which a rank announces its failure until the failure, as in ranks/probe.py."""
_PAUSE = 0.002
_HELD_OPEN = 0.05
_GRACE = 5.0
_CANCELLED_WITHIN = 15.0


class Trial(NamedTuple):
    """The times of one start, in seconds. `first` and `step` are the times from the start of the command until every
    rank had printed its first line, and had met the others. `over` is the time from the end of the last rank (or the
    failure of one) until the command and all processes that it had started were gone. None: this was not reached.

    endless  the seconds for which the command kept running after the failure of a rank; 0: it has ended
    left     the number of processes that remained five seconds after the command's end, and had to be killed
    failure  a sentence; "" if the trial went as expected
    """

    first: float | None = None
    step: float | None = None
    over: float | None = None
    endless: float = 0.0
    left: int = 0
    failure: str = ""


class Heard(NamedTuple):
    """The output of a trial.

    times     Unix seconds of each rank's reports, by the report's name and the rank
    other     the end of the remaining output
    ended     the time when the command had ended and its output was closed; None: not in time
    """

    times: Mapping[tuple[str, int], float]
    other: str
    ended: float | None

    @property
    def has_failed(self) -> bool:
        """True if a rank has failed on purpose. It had met all others before; its end may have overtaken their
        lines."""
        return any(what == "failing" for what, _ in self.times)

    def all_of(self, what: str, ranks: int) -> float | None:
        """Return the time when the last of the `ranks` ranks of the trial reported `what` ("first" or "step"); None if
        a rank has not reported it."""
        times = [self.times.get((what, rank)) for rank in range(ranks)]
        known = [each for each in times if each is not None]
        return max(known) if len(known) == ranks else None


def run_trial(
    words: Sequence[str],
    environ: Mapping[str, str],
    cwd: str,
    ranks: int,
    fails: bool,
    limit: float,
    ended_by: int = signal.SIGTERM,
) -> Trial:
    """Start the launcher's command line `words` and wait at most `limit` seconds until all of its processes have ended.
    Return the times as a Trial. If it has not ended by then, or this function is interrupted, send it the signal
    `ended_by`. Kill all of its processes that remain on this machine. `fails` is whether a rank fails on purpose."""
    mark = secrets.token_hex(16)
    process = None
    began = time.time()
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=cwd,
            env={**environ, MARK: mark}, start_new_session=True,
        )  # fmt: skip
        heard = _listen(process, began, began + limit)
        gone, left = _wait_until_gone(mark, heard.ended) if heard.ended is not None else (None, 0)
        failure = _failure(heard, process.returncode, ranks, fails, limit)
    except OSError as error:
        return Trial(failure=f"it cannot be started: {error.strerror or error}")
    finally:
        _end(process, mark, ended_by)
    endless = limit if heard.ended is None and heard.has_failed else 0.0
    return _trial(heard, began, gone, ranks, fails)._replace(endless=endless, left=left, failure=failure)


def marked_processes(mark: str) -> list[int]:
    """Return the pids of this user's processes whose environment contains the variable MARK with the value `mark`, that
    is, the processes of one trial. Processes that are dead and not yet reaped do not carry it."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if wanted in file.read().split(b"\0"):
                        found.append(int(name))
            except OSError:
                continue  # another user's process, or gone
    return found


def end_marked(mark: str) -> int:
    """Kill all processes of the trial with the given `mark`, and return their number. Search again until none remains,
    because they may start others meanwhile."""
    ended: set[int] = set()
    for _ in range(500):
        left = marked_processes(mark)
        if not left:
            break
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            ended.add(pid)
        time.sleep(_PAUSE)
    return len(ended)


def _end(process: subprocess.Popen[bytes] | None, mark: str, ended_by: int) -> None:
    """Terminate the command of a trial and all processes that carry its mark. A command that still runs gets the signal
    `ended_by` first, because a job on a cluster does not end when the process that started it is killed. Its output is
    read meanwhile, so that it can print its last lines."""
    try:
        if process is not None and process.poll() is None:
            process.send_signal(ended_by)
            until = time.time() + _CANCELLED_WITHIN
            _read_lines(process, until, lambda line: None)
            _end_of(process, until)
    finally:
        end_marked(mark)
        if process is not None:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _listen(process: subprocess.Popen[bytes], began: float, until: float) -> Heard:
    times: dict[tuple[str, int], float] = {}
    other = b""

    def take(line: bytes) -> None:
        nonlocal other
        if not _take(line, began, time.time(), times):
            other = (other + line + b"\n")[-_KEPT:]

    _read_lines(process, until, take)
    return Heard(times, other.decode("utf-8", "replace"), _end_of(process, until))


def _read_lines(process: subprocess.Popen[bytes], until: float, take: Callable[[bytes], None]) -> None:
    """Read the output of the trial's command `process` and pass each line to `take`, until the time `until`, or until
    the command has ended, even if another process that it started keeps its output open. Only the end of a long line is
    kept."""
    assert process.stdout is not None
    output, rest = process.stdout.fileno(), b""
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        while (now := time.time()) < until:
            if not selector.select(min(until - now, _HELD_OPEN)):
                if process.poll() is not None:
                    break
                continue
            block = os.read(output, 1 << 16)
            if not block:
                break
            *lines, rest = (rest + block).split(b"\n")
            rest = rest[-_LONGEST_LINE:]
            for line in lines:
                take(line)
    take(rest)


def _end_of(process: subprocess.Popen[bytes], until: float) -> float | None:
    """Wait for the end of the trial's command `process` and return its time, precise to a few milliseconds; None if it
    is still running at `until`. Popen.wait polls at growing intervals."""
    while process.poll() is None:
        if time.time() >= until:
            return None
        time.sleep(_PAUSE)
    return time.time()


def _take(line: bytes, began: float, came: float, times: dict[tuple[str, int], float]) -> bool:
    """Record in `times` the reports of ranks in one line of a trial's output, which may contain several of them with a
    launcher's text around them. Return whether the line contains any. The rank's own clock counts if the rank is on
    this machine, otherwise `came`, the time when the line arrived."""
    found = _LINE.findall(line)
    for what, rank, said, machine in found:
        own = int(said) / 1e9
        is_here = machine.decode("ascii") == find_machine() and began <= own <= came
        times.setdefault((what.decode("ascii"), int(rank)), own if is_here else came)
    return bool(found)


def find_machine() -> str:
    """Return a name that identifies this machine, as ranks report it: the kernel's boot id, otherwise the host name."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read(64).strip()
    except OSError:  # a sandbox without this file
        return os.uname().nodename


def _wait_until_gone(mark: str, ended: float) -> tuple[float | None, int]:
    """Wait until no process with the trial's mark remains. Return the time of that, which is `ended` if there was none
    at the first look, and 0; or None and the number of processes that remain after five seconds."""
    gone, until = ended, time.time() + _GRACE
    while left := marked_processes(mark):
        if time.time() >= until:
            return None, len(left)
        time.sleep(_PAUSE)
        gone = time.time()
    return gone, 0


def _trial(heard: Heard, began: float, gone: float | None, ranks: int, fails: bool) -> Trial:
    first, step = heard.all_of("first", ranks), heard.all_of("step", ranks)
    failing = [time for (what, _), time in heard.times.items() if what == "failing"]
    last = (min(failing) + FAILS_AFTER if failing else None) if fails else step
    return Trial(
        None if first is None else first - began,
        None if step is None else step - began,
        None if last is None or gone is None else max(0.0, gone - last),
    )


def _failure(heard: Heard, code: int | None, ranks: int, fails: bool, limit: float) -> str:
    said = _last_words(heard.other)
    if heard.has_failed:
        return "a rank failed, and its exit code was 0" if heard.ended is not None and code == 0 else ""
    if heard.ended is None:
        return f"it continued for {limit:g} s{said}"
    if heard.all_of("first", ranks) is None:
        return f"not every rank has started{said}"
    if heard.all_of("step", ranks) is None:
        return f"the ranks have not met{said}"
    return f"its exit code was {code}{said}" if code or fails else ""


def _last_words(output: str) -> str:
    """Return the last line of a launcher's output that reports an error, otherwise the last line that contains words,
    as ": LINE"; "" without output. Open MPI's messages end with advice and a line of dashes."""
    said = [line.strip() for line in output.split("\n") if re.search(r"\w{2}", line)]
    bad = [line for line in said if _BAD.search(line)]
    return f": {(bad or said)[-1][:200]}" if said else ""
