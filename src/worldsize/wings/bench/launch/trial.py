"""One start of a launcher, with its times, and everything that it has started ended afterwards."""

from __future__ import annotations

import os
import re
import secrets
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple

MARK = "WORLDSIZE_BENCH_TRIAL"
"""A variable that everything inherits that a trial starts: so all of it is found again."""
_LINE = re.compile(rb"worldsize-bench (first|step|failing) (\d{1,7}) (\d{1,19}) (\S{1,255})")
_MOST_OUTPUT = 1 << 20
_LAST = 2000
_PAUSE = 0.005
_GRACE = 5.0


class Trial(NamedTuple):
    """Seconds from the start of the command until every rank had said its first line, and had met the others; from the
    end of the last rank (or the failure of one) until the command and all that it had started was gone. None: that did
    not come about.

    left     processes that were there still `limit` seconds after the command's end, and had to be ended
    failure  a sentence; "" where it went as it should
    """

    first: float | None = None
    step: float | None = None
    over: float | None = None
    left: int = 0
    failure: str = ""


class Heard(NamedTuple):
    """A line of a rank: what, whose, when by its own clock and when it came, in seconds of Unix time; its host."""

    what: str
    rank: int
    said: float
    came: float
    host: str


def run_trial(
    words: Sequence[str], environ: Mapping[str, str], cwd: str, ranks: int, fails: bool, limit: float
) -> Trial:
    """Start the command and wait until all of it is over, at most `limit` seconds; whatever is left is ended, also
    where this is interrupted."""
    mark = secrets.token_hex(16)
    began = time.time()
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=cwd,
            env={**environ, MARK: mark}, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return Trial(failure=f"cannot be started: {error.strerror or error}")
    try:
        heard, output, ended = _listen(process, began + limit)
        gone = _wait_until_gone(mark, time.time() + (_GRACE if ended else 0.0))
        return _trial(began, heard, output, process, gone, fails, ranks)
    finally:
        end_marked(mark)
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


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
    """End what is left, and return how many that were; what starts others meanwhile is looked for again."""
    ended: set[int] = set()
    for _ in range(50):
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


def _listen(process: subprocess.Popen[bytes], until: float) -> tuple[list[Heard], bytes, bool]:
    """The lines of ranks, the end of the other output, and whether the command has ended by then."""
    assert process.stdout is not None
    heard: list[Heard] = []
    rest, others, taken = b"", b"", 0
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while time.time() < until:
            if not selector.select(max(0.0, min(until - time.time(), 0.5))):
                if process.poll() is not None:
                    break  # something else that it has started holds its output open
                continue
            block = os.read(process.stdout.fileno(), 1 << 16)
            came = time.time()
            if not block:
                break
            taken += len(block)
            *lines, rest = (rest + block).split(b"\n")
            rest = rest[-_MOST_OUTPUT:]
            for line in lines:
                found = _heard(line, came)
                if found is None:
                    others = (others + line + b"\n")[-_LAST:]
                else:
                    heard.append(found)
    try:
        process.wait(max(0.0, until - time.time()))
    except subprocess.TimeoutExpired:
        return heard, others, False
    return heard, others, True


def _heard(line: bytes, came: float) -> Heard | None:
    found = _LINE.search(line)
    if found is None:
        return None
    what, rank, said, host = (each.decode("ascii", "replace") for each in found.groups())
    return Heard(what, int(rank), int(said) / 1e9, came, host)


def _wait_until_gone(mark: str, until: float) -> tuple[float, int]:
    """When nothing was left of it, and how many processes were left at `until`."""
    while True:
        left = marked_processes(mark)
        now = time.time()
        if not left or now >= until:
            return now, len(left)
        time.sleep(_PAUSE)


def _trial(
    began: float, heard: list[Heard], output: bytes, process: subprocess.Popen[bytes], gone: tuple[float, int],
    fails: bool, ranks: int,
) -> Trial:  # fmt: skip
    first, step = _all_of(heard, "first", ranks), _all_of(heard, "step", ranks)
    failing = [_time_of(each) for each in heard if each.what == "failing"]
    ended = (failing[0] if failing else None) if fails else step
    over = gone[0] - ended if ended is not None and not gone[1] else None
    met = step is not None or bool(failing)  # the failing rank's end may come before another's line
    failure = _failure(process.returncode, first is not None or met, met, fails, gone[1], output)
    return Trial(
        None if first is None else first - began, None if step is None else step - began, over, gone[1], failure
    )


def _failure(code: int | None, first: bool, met: bool, fails: bool, left: int, output: bytes) -> str:
    said = [line.strip() for line in output.decode("utf-8", "replace").split("\n") if line.strip()]
    last = f": {said[-1][:200]}" if said else ""
    if code is None:
        return "it did not end in time" + last
    if not first:
        return "not every rank has started" + last
    if not met:
        return "the ranks have not met" + last
    if not fails and code != 0:
        return f"its exit code was {code}{last}"
    if fails and code == 0:
        return "a rank failed, and its exit code was 0"
    return f"{left} of its processes were left" if left else ""


def _all_of(heard: list[Heard], what: str, ranks: int) -> float | None:
    """When the last of all ranks has said it."""
    times = {each.rank: _time_of(each) for each in heard if each.what == what}
    return max(times.values()) if set(times) == set(range(ranks)) else None


def _time_of(each: Heard) -> float:
    """By the rank's own clock where that is this machine's; else when its line came."""
    return each.said if each.host == os.uname().nodename else each.came
