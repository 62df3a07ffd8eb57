"""The reason for the end of a run inside an allocation whose srun is gone: Slurm may have ended the allocation.

The message of slurmstepd in the run's batch.log is not always there. Agents that were stopped by the agent of another
node may be gone before the slurmd of their own node knows the reason.
"""

from __future__ import annotations

from worldsize.compute.slurm.job_rows import JobRow
from worldsize.compute.slurm.observe import observation
from worldsize.compute.slurm.states import state_of
from worldsize.state.records import Observation, Reason

TOGETHER = 10.0
"""The largest number of seconds between the last output of a run and the recorded end of its allocation at which the
run is considered to have ended with the allocation."""

_TAKE_RUNS_ALONG = frozenset((Reason.NODE_FAILURE, Reason.TIME_LIMIT, Reason.PREEMPTED))
_STATES = {"NodeDown": "NODE_FAIL", "TimeLimit": "TIMEOUT"}
"""The state in which a job will end, by the reason that Slurm reports while its nodes are still being cleaned up."""


def explained_end(gone: Observation, row: JobRow, last_words: float, now: float) -> Observation:
    """Return the observation `gone` of a run whose srun is gone, extended by the reason for which Slurm has ended its
    allocation. While Slurm has not yet reported the reason, the run counts as running, for at most `TOGETHER` seconds.
    Return `gone` unchanged if Slurm reports no such reason, or if the run had ended before.

    row         Slurm's row about the allocation
    last_words  the time of srun's last output (Unix seconds, as `now`)
    """
    ended = now if row.ended is None else row.ended
    if ended - last_words > TOGETHER:
        return gone
    ending = row.state == "COMPLETING"
    if ending and row.reason in _STATES:  # its list contains only the nodes that are not clean yet
        row = row._replace(state=_STATES[row.reason], nodes="")
    elif ending:
        return Observation("running", message=f"Slurm: its allocation (job {row.job}) is ending", ending=True)
    if state_of(row.state).reason not in _TAKE_RUNS_ALONG:
        return gone
    end = observation(row)
    return gone._replace(reason=end.reason, message=f"{end.message}; this ended its allocation (job {row.job})")
