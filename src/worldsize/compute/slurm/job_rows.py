"""Slurm's report of one job, and functions that parse its short texts: times, durations, exit codes and ids of array
elements (`1234_[0-2,7]`). Other functions format durations and signals for people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.common.numbers import parse_digits, span_words
from worldsize.plan.hostlist import MAX_NAMES
from worldsize.state.exit_records import signal_name

SEPARATOR = "\x1f"
"""Separator of columns: a character that no name, reason or comment contains, unlike `|`."""

QUEUE = "queue"
ACCOUNTS = "accounts"
NOWHERE = "nowhere"
UNANSWERED = "unanswered"

OUT_OF_MEMORY_SIGNAL = 125
"""SIG_OOM in slurm.h. It is no real signal, but a mark in the exit code of a job or step that ran out of memory."""

_LONGEST_LIST = 100_000
"""Maximum number of bytes of ids in one call. An argument may have 128 KiB (MAX_ARG_STRLEN)."""
_MOST = 400
"""Maximum number of characters of one list of element numbers. Every version of Slurm reads far longer lists."""

_YEAR = 365 * 86400
_DURATION = r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(\.\d+)?"
_ELEMENTS = r"(\d+)_\[([^\]]*)\]"
_ELEMENT_RANGE = r"(\d+)(?:-(\d+)(?::(\d+))?)?"


class JobRow(NamedTuple):
    """A job, or one element of a job array. Times are Unix seconds and durations seconds; None where Slurm does not
    report them.

    job           the requested id: "1234" or "1234_7"
    seen          QUEUE: slurmctld knows the job; ACCOUNTS: only accounting does; NOWHERE: neither does;
                  UNANSWERED: see `trouble`
    state         Slurm's word, in full: "RUNNING"; "" if the job was not seen
    reason        Slurm's word for why it waits or ended; "" for none
    nodes         folded, as Slurm prints them; "" before it has any
    exit_code     as Slurm prints it; `code_of` parses it
    restarts      number of times that Slurm has put the job back into the queue
    expected      expected start time, while the job waits
    limit         limit of its run time; None for no limit, or an unknown one
    dependency    unfulfilled dependencies: "afterok:12(unfulfilled)"
    tres          resources that it holds or held: "cpu=8,node=2,gres/gpu=8"
    cancelled_by  uid of the user who cancelled it
    out_of_memory whether one of its steps was killed for its memory, regardless of the job's own state
    before        end state of the attempt before the last restart
    name          "" where it is not known yet
    trouble       why nothing is known
    """

    job: str
    seen: str
    state: str = ""
    reason: str = ""
    name: str = ""
    partition: str = ""
    nodes: str = ""
    node_count: int = 0
    exit_code: str = ""
    restarts: int = 0
    requeue: bool | None = None
    submitted: float | None = None
    expected: float | None = None
    started: float | None = None
    ended: float | None = None
    limit: int | None = None
    elapsed: int | None = None
    dependency: str = ""
    tres: str = ""
    cancelled_by: int | None = None
    out_of_memory: bool = False
    before: str = ""
    trouble: str = ""

    def may_be(self, name: str) -> bool:
        """Return whether the row's job may be the job named `name`, and not another job that got the same number at
        another time. An unknown name, of either, matches every name."""
        return not self.name or not name or self.name == name


def format_option(columns: Iterable[str]) -> str:
    """Return the `--Format` option that requests `columns` from squeue or sinfo, with unlimited width and `SEPARATOR`
    after each column."""
    return "--Format=" + ",".join(f"{column}:0{SEPARATOR}" for column in columns)


def values_of(text: str, columns: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield, for each line of `text`, the output of squeue, sinfo or sacct, a mapping of column name to value.
    `columns` are the columns in their order. Incomplete lines are left out."""
    for line in text.split("\n"):
        fields = line.split(SEPARATOR)
        if len(fields) == len(columns) + 1:
            yield dict(zip(columns, (field.strip() for field in fields), strict=False))


def limit_of(text: str) -> int | None:
    """Parse a job's time limit as squeue prints it and return it in seconds; None for no limit. slurmctld writes a year
    for "no limit" once the job has started, so a limit of a year or more counts as none."""
    seconds = seconds_of(text)
    return None if seconds is None or seconds >= _YEAR else seconds


def seconds_of(text: str) -> int | None:
    """Parse a duration as Slurm prints it, "1-02:03:04" or "02:03", and return it in whole seconds; None for UNLIMITED,
    NOT_SET, INVALID, Partition_Limit and similar words.

    squeue prints INVALID for a duration longer than a year (YEAR_SECONDS in its print.c).
    """
    exact = exact_seconds_of(text)
    return None if exact is None else int(exact)


def exact_seconds_of(text: str) -> float | None:
    """Parse a duration as `seconds_of` does, but keep a fraction such as that in "00:01.250"; None for a text that is
    no duration. sacct's CPU times have milliseconds below an hour or so."""
    match = re.fullmatch(_DURATION, text.strip())
    if not match:
        return None
    days, hours, minutes, seconds = (int(group or 0) for group in match.groups()[:4])
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds + float(match.group(5) or 0)


def time_of(text: str) -> float | None:
    """Parse a point in time as Slurm prints it and return it in Unix seconds. `text` is a number of Unix seconds, as
    with SLURM_TIME_FORMAT=%s, or "2024-05-06T07:08:09" in local time. None for Unknown, N/A, 0 and other texts."""
    text = text.strip()
    if text.isdecimal():
        return float(text) or None
    if len(text) != 19 or text[10] != "T":
        return None
    import time

    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None


def code_of(text: str) -> int | None:
    """Parse a job's exit code as Slurm prints it, CODE:SIGNAL, and return one number: 7 for "7:0", 137 for "0:9", and
    137 for "0:125", Slurm's mark for out of memory. None for other texts.

    squeue before 23.02 prints the raw wait status instead: "1792", "9", "125" (_print_job_exit_code in its print.c).
    """
    first, colon, second = text.strip().partition(":")
    if not first.isdecimal() or (colon and not second.isdecimal()):
        return None
    code, signal = (int(first), int(second)) if colon else (int(first) >> 8, int(first) & 0x7F)
    if signal == OUT_OF_MEMORY_SIGNAL:
        return 137
    return 128 + signal if signal else code


def has_no_output(text: str) -> bool:
    """Return whether `text`, an exit code as Slurm prints it, is that of a job whose output file the first node could
    not open. It is ESLURMD_IO_ERROR as a wait status, whose low bits are the signal 53, which does not exist."""
    return text.strip() == "4021" or text.strip().endswith(":53")


def number_of(text: str) -> int:
    """Parse a count that Slurm printed, such as a number of nodes or CPUs; 0 for a text that is no number. Slurm
    shortens counts from 1024 on ("4K") unless it is called with --noconvert."""
    return parse_digits(text.strip()) or 0


def ids_of(job: str) -> Iterator[str]:
    """Yield the job ids that `job`, an id as squeue or sacct prints it, refers to: every array element of
    "1234_[5-9,20-30:5%10]" ("1234_5", "1234_6", …), at most `MAX_NAMES`, or `job` itself if it is not a list of
    elements.

    For an id that squeue cut short ("1234_[1-3,5,...]"), the elements before the cut are yielded.
    """
    match = re.fullmatch(_ELEMENTS, job)
    if not match:
        yield job
        return
    base, listed = match.groups()
    left = MAX_NAMES
    for part in listed.split("%")[0].split(","):
        found = re.fullmatch(_ELEMENT_RANGE, part)
        if not found:
            return
        first, last, step = (int(group) if group else None for group in found.groups())
        for element in range(first or 0, (first or 0) + 1 if last is None else last + 1, step or 1):
            if left == 0:
                return
            left -= 1
            yield f"{base}_{element}"


def id_batches(jobs: Iterable[str]) -> Iterator[list[str]]:
    """Yield the base ids of `jobs` ("1234" for "1234_7"), each once, in lists that each fit into one command-line
    argument. Usually this is one list."""
    return _batches(dict.fromkeys(job.split("_")[0] for job in jobs), _LONGEST_LIST)


def _batches(words: Iterable[str], most: int) -> Iterator[list[str]]:
    """Split `words` into consecutive lists and yield these. Each list has at most `most` characters after its words are
    joined with commas, unless a single word is longer."""
    some: list[str] = []
    length = 0
    for word in words:
        if some and length + len(word) + 1 > most:
            yield some
            some, length = [], 0
        some.append(word)
        length += len(word) + 1
    if some:
        yield some


def fold_job_ids(jobs: Iterable[str]) -> list[str]:
    """Return the job ids `jobs` in short form: elements of one array are joined ("1234_[0-2,7]"), and every other id
    stays as it is."""
    arrays: dict[str, list[int]] = {}
    alone = []
    for job in jobs:
        array, line, element = job.partition("_")
        if line and element.isdigit():
            arrays.setdefault(array, []).append(int(element))
        else:
            alone.append(job)
    for array, numbers in arrays.items():
        alone += [f"{array}_[{','.join(some)}]" for some in _batches(span_words(sorted(set(numbers))), _MOST)]
    return alone


_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def span(seconds: float) -> str:
    """Return a duration in seconds as text with at most two units: "2 min 3 s", "1 d 4 h", "0 s"."""
    left, words = int(seconds), []
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        if count:
            words.append(f"{count} {unit}")
    return " ".join(words[:2]) or "0 s"


def signal_text(number: int) -> str:
    """Return the number and name of a signal, "9 (KILL)"; the number alone if it has no name."""
    name = signal_name(128 + number)
    return f"{number} ({name[3:]})" if name else str(number)
