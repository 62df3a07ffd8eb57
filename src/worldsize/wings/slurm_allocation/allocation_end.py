"""The reason for the end of a run inside an allocation whose srun is gone: Slurm may have ended the allocation.

What slurmstepd says of that in the run's batch.log is not always there: agents that another node's has told to end may
be gone before their own node's slurmd hears why.
"""

from __future__ import annotations

from worldsize.compute.slurm.job_rows import JobRow
from worldsize.compute.slurm.observe import observation
from worldsize.compute.slurm.states import state_of
from worldsize.state.records import Observation, Reason

TOGETHER = 10.0
"""Seconds by which the allocation's end may be noted after the last words of a run that ended with it."""

_TAKE_RUNS_ALONG = frozenset((Reason.NODE_FAILURE, Reason.TIME_LIMIT, Reason.PREEMPTED))
_STATES = {"NodeDown": "NODE_FAIL", "TimeLimit": "TIMEOUT"}
"""The state in which a job will have ended, by the reason that is told while its nodes are still being cleaned up."""


def explained_end(gone: Observation, row: JobRow, last_words: float, now: float) -> Observation:
    """`gone`, the observation of a run whose srun is gone, with the reason for which Slurm has ended its allocation.
    While Slurm is about to tell that, the run counts as running: for `TOGETHER` seconds at most. `gone` itself where
    Slurm tells no such reason, or the run had ended before.

    row         what Slurm tells of the allocation
    last_words  when srun wrote something for the last time (Unix seconds, as `now`)
    """
    ended = now if row.ended is None else row.ended
    if ended - last_words > TOGETHER:
        return gone
    ending = row.state == "COMPLETING"
    if ending and row.reason in _STATES:  # of the nodes it lists only those that are not clean yet
        row = row._replace(state=_STATES[row.reason], nodes="")
    elif ending:
        return Observation("running", message=f"Slurm: its allocation (job {row.job}) is ending", ending=True)
    if state_of(row.state).reason not in _TAKE_RUNS_ALONG:
        return gone
    end = observation(row)
    return gone._replace(reason=end.reason, message=f"{end.message}; this ended its allocation (job {row.job})")
