"""The notes of a node on a failure: messages of its kernel, and whether it has what a rank of another node did not
find.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from worldsize.agent.machine.kernel_messages import read_kernel_messages
from worldsize.agent.outcome.node_comparison import is_found, question_of
from worldsize.agent.outcome.node_record import NodeRecorder
from worldsize.state.records import Failure


def note_circumstances(
    recorder: NodeRecorder,
    failure: Failure,
    argv: Sequence[str] | None,
    environ: Mapping[str, str],
    since: float,
    pids: Collection[int] | None,
) -> None:
    """Write the node's notes on a failure of the run as events: "kernel" for each message of the kernel's log about the
    ranks, and "compared" for whether this node has the file or module that the failed rank did not find.

    argv, environ  the command and environment of the ranks on this node; `argv` is None if the failure is its own
    since          the time at which the run began here, in Unix seconds
    pids           the ranks' processes; None if another node reports the messages of this machine's kernel
    """
    for message in () if pids is None else read_kernel_messages(since, failure.time, pids):
        recorder.write_event("kernel", at=message.time, text=message.text)
    question = None if argv is None else question_of(failure)
    found = None if question is None else is_found(question, argv or (), environ)
    if question is not None and found is not None:
        recorder.write_event("compared", found=found, **question._asdict())
