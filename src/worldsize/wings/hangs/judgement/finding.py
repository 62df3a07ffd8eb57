"""What one witness of a hang says: which ranks, and in which of three ways they keep the others waiting.

The three ways, in the order in which they count: a rank has not entered a collective call that others wait in; it
entered another one; it did not leave one that others have left.

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
"""Log lines of NCCL's watchdog, processes as the kernel sees them, stacks, PyTorch's Flight Recorder, NCCL RAS."""


class Finding(NamedTuple):
    """What one witness says. It names ranks where it has a `kind`, and else only tells in `text` what it has seen, and
    in `ranks`, `place` and `entered` what it would add to another's word on these ranks.

    witness   one of WITNESSES
    kind      one of KINDS; None where the witness names nobody
    ranks     the ranks that are named, ascending
    call      the collective call that others wait in, "all_reduce"; "" where the witness does not know
    sequence  that call's number in its process group, from 1; None where the witness does not know
    waiting   the ranks that are seen to wait, ascending; for NOT_LEFT, those that have left
    place     where the named ranks are, if in one place: file, line, function
    text      a sentence without a full stop
    since     when the last of `waiting` entered the call, Unix seconds; None where the witness does not know
    group     "group 2", the process group of the call; "" for that of all ranks
    entered   for OTHER_CALL, the call that the named ranks entered instead
    state     for ranks that cannot come any more, why: "ended with code 0", "is stopped"
    certain   what the kernel or the agent has seen, beyond doubt
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
    """Return a finding that names nobody."""
    return Finding(witness, None, (), "", None, (), None, text)


def ranks_text(ranks: Iterable[int]) -> str:
    """ "rank 3", "ranks 0-2,5"."""
    known = sorted(set(ranks))
    return "rank{} {}".format("" if len(known) == 1 else "s", ",".join(span_words(known)))


def call_text(call: str, sequence: int | None, group: str = "") -> str:
    """ "all_reduce #7", "call #7 of group 2", "a collective call"."""
    what = (call or "a collective call") if sequence is None else f"{call or 'call'} #{sequence}"
    return f"{what} of {group}" if group else what


def is_minority(few: Sequence[int], many: Sequence[int], unseen: int = 0) -> bool:
    """Return whether `few` ranks are so much fewer than `many` that they are the odd ones, whatever the `unseen` ones
    did; of two ranks, one is enough."""
    return bool(few) and (len(few) + unseen < len(many) or (len(few), len(many), unseen) == (1, 1, 0))


def against_text(few: Sequence[int], many: Sequence[int], unseen: int = 0) -> str:
    """ "2 against 2", "2 against 2, 1 unknown"."""
    return f"{len(few)} against {len(many)}" + (f", {unseen} unknown" if unseen else "")
