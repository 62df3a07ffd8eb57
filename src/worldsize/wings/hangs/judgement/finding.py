"""The findings of one witness of a hang: the ranks that keep the others waiting, and in which of three ways.

The three ways, in order of precedence: a rank has not entered a collective call that others wait in; it has entered
another call; it did not leave a call that others have left.

Standard library only (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.common.numbers import span_words

NOT_ENTERED, OTHER_CALL, NOT_LEFT = "H1", "H2", "H3"
KINDS = (NOT_ENTERED, OTHER_CALL, NOT_LEFT)

WATCHDOG, PROCESS, STACKS, RECORDER, RAS = "watchdog", "process", "stacks", "recorder", "ras"
WITNESSES = (WATCHDOG, PROCESS, STACKS, RECORDER, RAS)
"""The witnesses: log lines of NCCL's watchdog, processes according to the kernel, stacks, PyTorch's Flight Recorder,
NCCL RAS."""


class Finding(NamedTuple):
    """The result of one witness. It names ranks if it has a `kind`. Otherwise it only describes its observation in
    `text`, and adds `ranks`, `place` and `entered` to another witness's result on these ranks.

    witness   one of WITNESSES
    kind      one of KINDS; None if the witness names no rank
    ranks     the ranks that are named, ascending
    call      the collective call that others wait in, "all_reduce"; "" if the witness does not know it
    sequence  that call's number in its process group, from 1; None if the witness does not know it
    waiting   the ranks that were found waiting, ascending; for NOT_LEFT, those that have left
    place     the place of the named ranks, if all are in one: file, line, function
    text      a sentence without a full stop
    since     when the last of `waiting` entered the call, in Unix seconds; None if the witness does not know it
    group     "group 2", the process group of the call; "" for that of all ranks
    entered   for OTHER_CALL, the call that the named ranks entered instead
    state     for ranks that can no longer come, the reason: "ended with code 0", "is stopped"
    certain   whether the kernel or the agent has observed it, beyond doubt
    """

    witness: str
    kind: str | None
    ranks: tuple[int, ...]
    call: str
    sequence: int | None
    waiting: tuple[int, ...]
    place: tuple[str, int, str] | None
    text: str
    since: float | None = None
    group: str = ""
    entered: str = ""
    state: str = ""
    certain: bool = False


def told(witness: str, text: str) -> Finding:
    """Return a finding of the witness `witness` that names no rank, and only describes its observation in `text`."""
    return Finding(witness, None, (), "", None, (), None, text)


def ranks_text(ranks: Iterable[int]) -> str:
    """Return the ranks as a text: "rank 3", "ranks 0-2,5"."""
    known = sorted(set(ranks))
    return "rank{} {}".format("" if len(known) == 1 else "s", ",".join(span_words(known)))


def call_text(call: str, sequence: int | None, group: str = "") -> str:
    """Return the text that names a collective call: "all_reduce #7", "call #7 of group 2", "a collective call"."""
    what = (call or "a collective call") if sequence is None else f"{call or 'call'} #{sequence}"
    return f"{what} of {group}" if group else what


def is_minority(few: Sequence[int], many: Sequence[int], unseen: int = 0) -> bool:
    """Return whether the ranks in `few` are so few compared with those in `many` that they are the odd ones, for any
    behaviour of the `unseen` other ranks. One of two ranks also counts."""
    return bool(few) and (len(few) + unseen < len(many) or (len(few), len(many), unseen) == (1, 1, 0))


def against_text(few: Sequence[int], many: Sequence[int], unseen: int = 0) -> str:
    """Return the numbers of ranks as a text: "2 against 2", "2 against 2, 1 unknown"."""
    return f"{len(few)} against {len(many)}" + (f", {unseen} unknown" if unseen else "")
