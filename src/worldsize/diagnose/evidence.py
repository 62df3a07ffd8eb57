"""What a failure is explained from: values that whoever reads a run's directory fills in. Times are Unix seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.diagnose.signatures.signature import Match
from worldsize.state.clocks import ClockOffset
from worldsize.state.hang import Hang
from worldsize.state.records import Failure


class Line(NamedTuple):
    """A line of a log. `offset`: where in the file it begins, in bytes; `time`: when it was written, to a second. None
    where nobody knows."""

    text: str
    file: str
    offset: int | None = None
    time: float | None = None


class RaisedException(NamedTuple):
    """An uncaught exception of a rank. `text`: "Type: message"; `file` and `number`: the place in the user's own code,
    else the innermost one, "" and None where there is none."""

    text: str
    time: float
    file: str = ""
    number: int | None = None


class RankEnd(NamedTuple):
    """How one rank ended. `code` is None while it runs; `stopped`: an agent had told it to end. Times are those of its
    node's clock."""

    rank: int
    node: int
    code: int | None = None
    ended: float | None = None
    stopped: bool = False
    exception: RaisedException | None = None


class SchedulerRecord(NamedTuple):
    """What the scheduler's own record says of the end of its job.

    words    a sentence, with its state decoded: "job 17 reached its time limit (TIMEOUT), after 61 s of a limit of 60"
    reason   the `Reason` that it stands for
    message  the same as a status says it
    """

    words: str
    reason: str | None
    message: str


class Comparison(NamedTuple):
    """What one node has found of what a rank of another node did not find: a file or module of this `name`."""

    name: str
    found: bool


class RunEvidence(NamedTuple):
    """All that is known of one attempt of a run.

    attempt   its number
    state     the run's state (`RunState`), and `reason` the `Reason` beside it
    message   what the status says
    failure   what the agents, or whoever settled the run, took for the first failure
    ends      of every rank of the plan, in order
    lines     by rank, its log's last lines
    machine   by node, lines of the kernel and of the node's agent; by None, lines of the scheduler
    offsets   by node, where it was measured
    rehearsal whether it was a rehearsal of a cluster's job here
    compared  by node, what it has found of what a rank of another node did not find
    scheduler the scheduler's record, where it is known
    hang      the hang that the watch over the run found last, if it found one
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
    """One thing that was said, or seen, by ranks that said the same.

    match    the signature
    ranks    who said it, ascending; none for a scheduler or a kernel
    node     the node of the first of them
    time     when the first of them did, by the head's clock; None where nobody knows
    file     the log that holds it, and `offset` where there; or the source file of an exception, and its `line`
    raised   it ended its rank: an uncaught exception, or a signal
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
