"""The Python stacks of a rank's processes as values, and the parsers of their sources: py-spy, Python's faulthandler,
and files of /proc.

The data was written by other processes, and may be cut short or damaged. Nothing here raises for it, and texts and
counts are limited.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from worldsize.common.json_values import PARSE_ERRORS, check_fields, tuple_of
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.common.numbers import MAX_DIGITS, parse_digits

PY_SPY, FAULTHANDLER, PROC = "py-spy", "faulthandler", "proc"

RAN_ON = "py-spy: it found no frames"
"""The problem of a process whose Python ran while py-spy read it."""

_MOST_THREADS, _MOST_FRAMES, _MOST_TEXT, _MOST_CHARACTERS = 256, 256, 400, 8 << 20
_COMMAND_BYTES = 64
_THREAD = re.compile(r"(Current thread|Thread) 0x([0-9a-fA-F]{1,16}) (?:\[(.*)\] )?\(most recent call first")
_FRAME = re.compile(r'  File (?:"(.*)"|\?\?\?), line (\d+|\?\?\?) in (.*)')
_STATE, _CPU = 0, slice(11, 13)
"""The positions among the fields of `/proc/PID/stat` after the command: the state; utime and stime."""


class Frame(NamedTuple):
    """A call that has not returned. `function` includes its class if the source knows it. `line` is 0 if unknown.
    `text` is the source of that line; "" if it was not read."""

    function: str
    file: str
    line: int
    text: str = ""

    @property
    def name(self) -> str:
        """The function's name alone, which every source contains."""
        return self.function.rpartition(".")[2]


class ThreadStack(NamedTuple):
    """A thread. `frames` has the innermost first. `active` is whether it computes, `holds_gil` whether it holds
    Python's lock; each is None if the source does not contain it. `main` is whether it is the process's first thread.
    `id` is the kernel's, if known."""

    name: str
    frames: tuple[Frame, ...]
    active: bool | None
    holds_gil: bool | None
    main: bool
    id: int | None = None


class ThreadWork(NamedTuple):
    """The kernel's values for a thread: its name, its state's letter, and its CPU time in clock ticks so far."""

    id: int
    name: str
    state: str
    ticks: int


class RankStacks(NamedTuple):
    """A process of a rank at one moment.

    time         the time of reading, in Unix seconds
    source       "py-spy", "faulthandler", or "proc": then there are no threads
    state        the letter of proc(5); "" if the process no longer exists
    work         CPU time of each thread, Python's or not; the process's first thread comes first
    wait_channel the kernel's function that the first thread sleeps in; "" if unknown
    command      the program's name, according to the kernel
    parent       None for the rank's own Python, else the pid of the process that it is a child of
    problem      the reason why a better source gave nothing; "" if none was tried in vain
    waits        how often the first thread had begun to wait before the stacks were read, and after that; () if the
                 kernel does not report it
    moved        the bytes that it has read and written so far; None if the kernel does not report them
    """

    rank: int
    pid: int
    time: float
    source: str
    threads: tuple[ThreadStack, ...]
    state: str
    work: tuple[ThreadWork, ...] = ()
    wait_channel: str = ""
    command: str = ""
    parent: int | None = None
    problem: str = ""
    waits: tuple[int, ...] = ()
    moved: int | None = None

    @property
    def main_thread(self) -> ThreadStack | None:
        """The stack of the process's first thread; if that is unknown, of the oldest known thread; None without
        threads."""
        return next((each for each in self.threads if each.main), self.threads[-1] if self.threads else None)


def stacks_line(stacks: RankStacks) -> str:
    """Return the stacks of a rank's process as one line of JSON, which `parse_stacks_line` reads."""
    return json.dumps(stacks)


def parse_stacks_line(line: str | bytes) -> RankStacks | None:
    """Return the stacks of a rank's process in a line that `stacks_line` wrote. None for any other line. Additional
    values of a newer release are left out."""
    try:
        return check_fields(tuple_of(RankStacks, json.loads(line)))
    except PARSE_ERRORS:
        return None


def parse_py_spy(text: str | bytes) -> tuple[ThreadStack, ...]:
    """Return the stacks of a process's threads in the output of `py-spy dump --json`. Empty for any other text."""
    try:
        found = json.loads(text) if len(text) <= _MOST_CHARACTERS else None
    except PARSE_ERRORS:
        return ()
    threads = [_py_spy_thread(each) for each in found[:_MOST_THREADS]] if isinstance(found, list) else []
    return tuple(each for each in threads if each is not None)


def _py_spy_thread(value: Any) -> ThreadStack | None:
    if not isinstance(value, dict) or not isinstance(value.get("frames"), list):
        return None
    frames = [_py_spy_frame(each) for each in value["frames"][:_MOST_FRAMES] if isinstance(each, dict)]
    name, number = _text(value.get("thread_name")), _number(value.get("os_thread_id"))
    is_first = number is not None and number == value.get("pid")
    active, holds_gil = (
        each if isinstance(each, bool) else None for each in (value.get("active"), value.get("owns_gil"))
    )
    if number is None and active:
        active = None  # before Python 3.11 it knows no thread's number, cannot query the kernel, and only guesses
    return ThreadStack(name, tuple(frames), active, holds_gil, is_first or name == "MainThread", number)


def _py_spy_frame(value: dict[str, Any]) -> Frame:
    return Frame(_text(value.get("name")), _text(value.get("filename")), _number(value.get("line")) or 0)


def _text(value: Any) -> str:
    return value[:_MOST_TEXT] if isinstance(value, str) else ""


def _number(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 10**MAX_DIGITS else None


def parse_faulthandler(text: str) -> tuple[tuple[ThreadStack, ...], ...]:
    """Return the stack dumps in the text of a file that faulthandler has written to, the oldest first, each as the
    stacks of at least one thread.

    Within a dump there is an empty line before each thread but the first. So a thread directly after another line, or
    one that the dump already contains, begins a new dump. Python lists its threads from the newest to the oldest, which
    is the main one unless the dump was cut short.
    """
    dumps: list[list[_Thread]] = []
    last: _Thread | None = None
    empty_before = False
    for line in text[-_MOST_CHARACTERS:].splitlines():
        header = _THREAD.match(line)
        if header is not None:
            last = _Thread(header[2].lower(), header[3] or "", header[1] != "Thread")
            if not dumps or not empty_before or any(each.key == last.key for each in dumps[-1]):
                dumps.append([])
            if len(dumps[-1]) < _MOST_THREADS:
                dumps[-1].append(last)
        elif line and last is not None:
            frame = _FRAME.match(line)
            if frame is not None and len(last.frames) < _MOST_FRAMES:
                number = parse_digits(frame[2]) or 0
                last.frames.append(Frame(_text(frame[3].rstrip()), _text(frame[1] or ""), number))
            elif line == "...":  # there are more threads than Python lists
                dumps[-1][-1].is_cut = True
        empty_before = not line
    return tuple(tuple(_faulthandler_threads(dump)) for dump in dumps if dump)


class _Thread:
    """A thread of a dump while it is read."""

    def __init__(self, key: str, name: str, is_current: bool) -> None:
        self.key = key
        self.name = name
        self.is_current = is_current
        self.is_cut = False
        self.frames: list[Frame] = []


def _faulthandler_threads(dump: list[_Thread]) -> list[ThreadStack]:
    main = next((each for each in dump if each.is_current), None) if dump[-1].is_cut else dump[-1]
    return [
        ThreadStack(
            _text(each.name) or ("MainThread" if each is main else f"0x{each.key}"),
            tuple(each.frames),
            None,
            None,
            each is main,
        )
        for each in dump
    ]


def parse_thread_stat(number: int, data: bytes) -> ThreadWork | None:
    """Return the name, state and CPU time of the thread `number`, from the content of `/proc/PID/task/NUMBER/stat`.
    None if the content is anything else."""
    head, _, rest = data.rpartition(b") ")
    fields = rest.split()
    ticks = [parse_digits(each.decode("ascii", "replace")) for each in fields[_CPU]]
    if len(ticks) < 2 or None in ticks or len(fields[_STATE]) != 1:
        return None
    name = head.partition(b"(")[2][:_COMMAND_BYTES].decode("utf-8", "replace")
    return ThreadWork(number, name, fields[_STATE].decode("ascii", "replace"), sum(each or 0 for each in ticks))


def parse_proc(pid: int, stats: Mapping[int, bytes]) -> tuple[ThreadWork, ...]:
    """Return the name, state and CPU time of each thread of the process `pid`. `stats` maps the threads' numbers to the
    contents of their `stat` files. The first thread comes first, and damaged files are left out."""
    order = sorted(stats, key=lambda number: (number != pid, number))[:_MOST_THREADS]
    found = [parse_thread_stat(number, stats[number]) for number in order]
    return tuple(each for each in found if each is not None)


def parse_waits(data: bytes) -> int | None:
    """Return how often a thread has begun to wait (its voluntary context switches), from the content of its file
    `status` in /proc. None if that does not contain it."""
    match = re.search(rb"^voluntary_ctxt_switches:\s*(\d{1,18})$", data, re.MULTILINE)
    return int(match[1]) if match is not None else None


def parse_moved(data: bytes) -> int | None:
    """Return the number of bytes that a process has read and written, from the content of its file `io` in /proc. It
    includes those that caches and most file servers do not count. None if the file does not contain it."""
    found = re.findall(rb"^[rw]char: (\d{1,18})$", data, re.MULTILINE)
    return sum(map(int, found)) if found else None


def parse_wait_channel(data: bytes) -> str:
    """Return the name of the kernel's function that a thread sleeps in, from the content of `/proc/PID/wchan`. "" for a
    thread that runs, and if the kernel does not report it."""
    text = data[:_COMMAND_BYTES].decode("ascii", "replace").strip()
    return text if re.fullmatch(r"[A-Za-z_][\w.]*", text) else ""
