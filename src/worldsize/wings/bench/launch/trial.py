"""One start of a launcher, with its times, and everything that it has started ended afterwards."""

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
"""A variable that everything inherits that a trial starts: so all of it on this machine is found again."""
_LINE = re.compile(rb"worldsize-bench (first|step|failing) (\d{1,7}) (\d{1,19}) ([\w.-]{1,255});")
_BAD = re.compile(r"(?i)error|\bnot\b|cannot|fail|refuse|denied|no such|unable|invalid|unrecognized")
_LONGEST_LINE = 1 << 16
_KEPT = 4000
FAILS_AFTER = 0.2
"""Seconds from the line of a rank that is to fail until it does: as in ranks/probe.py."""
_PAUSE = 0.002
_HELD_OPEN = 0.05
_GRACE = 5.0
_CANCELLED_WITHIN = 15.0


class Trial(NamedTuple):
    """Seconds from the start of the command until every rank had said its first line, and had met the others; from the
    end of the last rank (or the failure of one) until the command and all that it had started was gone. None: that did
    not come about.

    endless  how many seconds it has gone on after the failure of a rank, without an end; 0: it has ended
    left     processes that were there still five seconds after the command's end, and had to be ended
    failure  a sentence; "" where it went as it should
    """

    first: float | None = None
    step: float | None = None
    over: float | None = None
    endless: float = 0.0
    left: int = 0
    failure: str = ""


class Heard(NamedTuple):
    """times     Unix seconds of what each rank has said, by what and by its number
    other     the end of what was printed besides
    ended     when the command had ended and its output was closed; None: not in time
    """

    times: Mapping[tuple[str, int], float]
    other: str
    ended: float | None

    @property
    def has_failed(self) -> bool:
        """Whether a rank has failed on purpose. It had met all others then, whose lines its end may have overtaken."""
        return any(what == "failing" for what, _ in self.times)

    def all_of(self, what: str, ranks: int) -> float | None:
        """When the last of all ranks has said it; None where one has not."""
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
    """Start the command and wait until all of it is over, at most `limit` seconds. Where it has not ended by then, or
    this is interrupted, it gets the signal `ended_by`; whatever is left of it on this machine is killed."""
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
    """Processes of this user that carry the mark; those that are dead and not yet waited for do not."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if wanted in file.read().split(b"\0"):
                        found.append(int(name))
            except OSError:
                continue  # another user's, or gone
    return found


def end_marked(mark: str) -> int:
    """Kill what is left, and return how many that were; what starts others meanwhile is looked for again."""
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
    """A command that still runs is asked first: a job on a cluster is not ended by the death of what has started it.
    Its output is read meanwhile, so that it can say its last words."""
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
    """Read what is printed, at most until `until`, or until the command has ended, also where something else that it
    has started holds its output open. Of a long line the end counts."""
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
    """When it has ended, to a few milliseconds: Popen.wait looks less and less often."""
    while process.poll() is None:
        if time.time() >= until:
            return None
        time.sleep(_PAUSE)
    return time.time()


def _take(line: bytes, began: float, came: float, times: dict[tuple[str, int], float]) -> bool:
    """Keep what ranks say in this line, which may hold several of theirs, and a launcher's words around them; whether
    it holds any. A rank's own clock counts where it is this machine's; else when its line came."""
    found = _LINE.findall(line)
    for what, rank, said, machine in found:
        own = int(said) / 1e9
        is_here = machine.decode("ascii") == find_machine() and began <= own <= came
        times.setdefault((what.decode("ascii"), int(rank)), own if is_here else came)
    return bool(found)


def find_machine() -> str:
    """What tells machines apart, as ranks say it: the number that the kernel has drawn as it was booted."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read(64).strip()
    except OSError:  # a sandbox without it
        return os.uname().nodename


def _wait_until_gone(mark: str, ended: float) -> tuple[float | None, int]:
    """When nothing was left of it: `ended`, where that is so at the first look; and how many processes are left five
    seconds later."""
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
    """Return the last line that speaks of an error; else the last that has words in it: Open MPI's messages end with
    advice and a line of dashes."""
    said = [line.strip() for line in output.split("\n") if re.search(r"\w{2}", line)]
    bad = [line for line in said if _BAD.search(line)]
    return f": {(bad or said)[-1][:200]}" if said else ""
