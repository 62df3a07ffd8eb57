"""Evidence from which a failure is explained: values that the reader of a run's directory fills in. Times are Unix
seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.diagnose.signatures.signature import Match
from worldsize.state.clocks import ClockOffset
from worldsize.state.hang import Hang
from worldsize.state.records import Failure


class Line(NamedTuple):
    """A line of a log. `offset` is where the line begins in the file, in bytes, and `time` is when it was written, to a
    second. None where they are not known."""

    text: str
    file: str
    offset: int | None = None
    time: float | None = None


class RaisedException(NamedTuple):
    """An uncaught exception of a rank. `text` is "Type: message". `file` and `number` are the place in the user's own
    code, else the innermost one; "" and None if there is none."""

    text: str
    time: float
    file: str = ""
    number: int | None = None


class RankEnd(NamedTuple):
    """The end of one rank. `code` is None while it runs. `stopped` is whether an agent had ordered it to end. Times are
    those of its node's clock."""

    rank: int
    node: int
    code: int | None = None
    ended: float | None = None
    stopped: bool = False
    exception: RaisedException | None = None


class SchedulerRecord(NamedTuple):
    """The scheduler's own record of the end of its job.

    words    a sentence, with its state decoded: "job 17 reached its time limit (TIMEOUT), after 61 s of a limit of 60"
    reason   the `Reason` that it corresponds to
    message  the same fact as a status shows it
    """

    words: str
    reason: str | None
    message: str


class Comparison(NamedTuple):
    """The result of one node's search for a file or module of this `name`, which a rank of another node did not
    find."""

    name: str
    found: bool


class RunEvidence(NamedTuple):
    """The known facts about one attempt of a run.

    attempt   number of the attempt
    state     the run's state (`RunState`)
    reason    the `Reason` of the state
    message   the message of the status
    failure   the failure that the agents, or the process that settled the run, took for the first
    ends      ends of every rank of the plan, in order
    lines     by rank, the last lines of its log
    machine   by node, lines of the kernel and of the node's agent; by None, lines of the scheduler
    offsets   by node, the clock offset where it was measured
    rehearsal whether it was a rehearsal of a cluster's job here
    compared  by node, the result of its search for what a rank of another node did not find
    scheduler the scheduler's record, where it is known
    hang      the last hang that the watch over the run found; None if it found none
    """

    attempt: int
    state: str
    reason: str | None
    message: str
    failure: Failure | None
    ends: Sequence[RankEnd]
    lines: Mapping[int, Sequence[Line]]
    machine: Mapping[int | None, Sequence[Line]]
    offsets: Mapping[int, ClockOffset]
    rehearsal: bool = False
    compared: Mapping[int, Comparison] = {}
    scheduler: SchedulerRecord | None = None
    hang: Hang | None = None


class Observation(NamedTuple):
    """A fact that ranks printed, or that was observed of them. Equal facts of several ranks are one observation.

    match    the matched signature
    ranks    ranks that it concerns, ascending; none for a scheduler or a kernel
    node     the node of the first of them
    time     the first time that it was observed, by the head's clock; None if that is not known
    file     the log that contains it, and `offset` its place there; or the source file of an exception, and its `line`
    raised   whether it ended its rank: an uncaught exception, or a signal
    """

    match: Match
    text: str
    ranks: tuple[int, ...]
    node: int | None
    time: float | None
    file: str = ""
    line: int | None = None
    offset: int | None = None
    raised: bool = False

    @property
    def id(self) -> str:
        return self.match.signature.id

    @property
    def is_of_scheduler(self) -> bool:
        return not self.ranks and self.node is None

    @property
    def role(self) -> str:
        return self.match.signature.role
