"""All states that Azure Machine Learning gives a job, and their meaning for a run. Pure.

The words are those of the enumeration JobStatus of the REST interface. An unknown word is phase "unknown", never a
success.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from worldsize.state.records import Observation, Reason
from worldsize.state.run_state import RUN_CANCELLED_CODE

_USER_PROCESS = re.compile(r"User process .{0,200} exited with status code (-?\d{1,3})\b")
_IMAGE = re.compile(r"image build|building (the )?image|Docker image|conda", re.IGNORECASE)
_LONGEST = 500
"""The maximum number of characters of the service's text in a message."""


class JobState(NamedTuple):
    """The meaning of one state of an Azure ML job.

    phase   the phase of an observation: "queued" | "running" | "ended" | "unknown"
    words   a description for users, to follow "Azure ML: "
    ending  whether the job's ranks have ended, or are about to end
    """

    phase: str
    words: str
    ending: bool = False


JOBS: Mapping[str, JobState] = {
    "NotStarted": JobState("queued", "it has not started"),
    "Scheduled": JobState("queued", "it is scheduled"),
    "Starting": JobState("queued", "it starts"),
    "Provisioning": JobState("queued", "nodes are being provisioned"),
    "Preparing": JobState("queued", "its environment is being prepared"),
    "Queued": JobState("queued", "it waits for nodes"),
    "Paused": JobState("queued", "it is paused"),
    "Running": JobState("running", ""),
    "NotResponding": JobState("running", "it does not respond"),
    "Finalizing": JobState("running", "its outputs are being kept", ending=True),
    "CancelRequested": JobState("running", "it is being cancelled", ending=True),
    "Completed": JobState("ended", "completed"),
    "Failed": JobState("ended", "failed"),
    "Canceled": JobState("ended", "cancelled"),
}


def observation(properties: Mapping[str, Any], said: Mapping[str, Any] | None = None) -> Observation:
    """Return the Observation of a run that follows from the `properties` of its Azure ML job. `said` is the service's
    error, {"code", "message"}, of a failed job; None if the service does not report one."""
    word = str(properties.get("status") or "")
    state = JOBS.get(word)
    if state is None:
        return Observation("unknown", message=f"Azure ML: state {word or '?':.40}, which is unknown to this release")
    message = f"Azure ML: {state.words}" if state.words else ""
    if state.phase != "ended":
        return Observation(state.phase, message=message, ending=state.ending)
    if word == "Canceled":
        return Observation("ended", Reason.CANCELLED_BY_USER, RUN_CANCELLED_CODE, message, over=True)
    if word == "Completed":
        return Observation("ended", code=0, over=True)
    reason, code = _cause(_error_text(said))
    return Observation("ended", reason, code, _failure_text(said), over=True)


def _cause(text: str) -> tuple[str | None, int]:
    """Return the reason and the exit code of a failed Azure ML job whose agents cannot report them, from `text`, the
    service's error message. The reason is None, and the code 1, if the message does not show the cause plainly."""
    ended = _USER_PROCESS.search(text)
    if ended:
        code = int(ended[1])
        return (Reason.SIGNAL, 128 - code) if code < 0 else (Reason.EXIT_CODE, code or 1)
    if _IMAGE.search(text):
        return Reason.ENVIRONMENT, 1
    return None, 1


def _failure_text(said: Mapping[str, Any] | None) -> str:
    return f"Azure ML: {_error_text(said) or 'failed'}"


def _error_text(said: Mapping[str, Any] | None) -> str:
    """Return the first line of the message in `said`, the service's error of a failed job, cut to a readable length; ""
    if there is no message."""
    text = str((said or {}).get("message") or "").strip()
    return text.splitlines()[0][:_LONGEST] if text else ""
