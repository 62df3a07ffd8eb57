"""The messages to the command of `notify`: one JSON object for each event of an attempt.

Pure. Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.state.records import Reason, RunState, Status
from worldsize.state.run_state import CANCELLED_MESSAGE

_LONGEST = 1000
"""The most characters of a sentence."""

ENDED_ELSEWHERE = "its scheduler ended it: it was cancelled there, ran out of time, or was preempted"


class ToldRun(NamedTuple):
    """The description of the run in every message. `job` is the scheduler's own id, None if it is not known. `began` is
    when the attempt's agent began, in Unix seconds."""

    run: str
    name: str
    compute: str
    attempt: int
    nodes: int
    world_size: int
    directory: str
    began: float
    job: str | None = None


def start_message(run: ToldRun, now: float) -> dict[str, Any]:
    """Return the message (a JSON object) to the command of `notify` that all nodes of the run have met, and the head's
    ranks have started."""
    again = f", attempt {run.attempt}" if run.attempt else ""
    nodes, ranks = _counted(run.nodes, "node"), _counted(run.world_size, "rank")
    return _message(run, "start", RunState.RUNNING, now, f"started on {run.compute}: {nodes}, {ranks}{again}")


def stuck_message(run: ToldRun, now: float, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message (a JSON object) to the command of `notify` that the run gives no sign of life. `fields` are
    those of the event `stuck`."""
    sentence, seconds = fields.get("sentence"), fields.get("seconds")
    silent = f"no sign of life for {seconds:.0f} s" if isinstance(seconds, (int, float)) else "no sign of life"
    why = _cut(sentence) if isinstance(sentence, str) else None
    text = f"seems to hang: {silent}" + (f": {why}" if why else "")
    return _message(run, "stuck", RunState.RUNNING, now, text, why=why, standing=fields.get("standing"))


def resumed_message(run: ToldRun, now: float) -> dict[str, Any]:
    """Return the message (a JSON object) to the command of `notify` that a run that was stuck makes progress again."""
    return _message(run, "resumed", RunState.RUNNING, now, "continues: there are signs of life again")


def end_messages(run: ToldRun, status: Status, now: float, restartable: bool) -> list[dict[str, Any]]:
    """Return the messages (JSON objects) to the command of `notify` that the attempt has ended: `failure`, if it
    failed, and `end`. With `restartable`, the run belongs to a scheduler that restarts runs that have lost a node or
    were preempted."""
    failure = status.failure
    stopped = restartable and status.state == RunState.CANCELLED and status.reason is None
    lost = restartable and failure is not None and failure.reason in (Reason.NODE_FAILURE, Reason.PREEMPTED)
    why: str | None = ENDED_ELSEWHERE
    if not stopped:
        said = failure.message if failure else status.message
        why = None if said == CANCELLED_MESSAGE else _cut(said) or None
    rest: dict[str, Any] = {"reason": status.reason, "exit_code": status.exit_code, "why": why}
    rest["may_restart"] = stopped or lost
    if failure is not None:
        rest.update(rank=failure.rank, node=failure.node_rank)
    again = "; its scheduler may start it again" if stopped or lost else ""
    lasted = f"after {_lasted(now - run.began)}"
    told = []
    if failure is not None and status.state == RunState.FAILED:
        where = f" of rank {failure.rank}" if failure.rank is not None else ""
        code = "" if failure.rank is None else f", exit code {failure.code}"
        text = f"failed {lasted}: {status.reason}{where}{code}" + (f": {why}" if why else "") + again
        told.append(_message(run, "failure", status.state, now, text, **rest))
    reason = f", {status.reason}" if status.reason and status.state == RunState.FAILED else ""
    beside = f": {why}" if why and status.state not in (RunState.SUCCEEDED, RunState.FAILED) else ""
    text = f"is over: {status.state}{reason} {lasted}{beside}{again}"
    return [*told, _message(run, "end", status.state, now, text, **rest)]


def _message(run: ToldRun, event: str, state: str, now: float, text: str, **rest: Any) -> dict[str, Any]:
    """Return a message (a JSON object) to the command of `notify` about an event: the fields of the run, `text`, and
    the fields in `rest`. Values that are None are left out, except `reason`."""
    known = {key: value for key, value in run._asdict().items() if key != "began" and value is not None}
    more = {key: value for key, value in rest.items() if value is not None}
    fixed = {"event": event, "state": state, "reason": None, "time": now, "seconds": round(now - run.began, 3)}
    return {**fixed, **known, **more, "text": _cut(f"{run.name} ({run.run}) {text}")}


def message_text(message: Mapping[str, Any], secrets: Sequence[str]) -> str:
    """Return a message to the command of `notify` as one line of JSON, with the values `secrets` and texts that look
    like secrets masked."""
    from worldsize.trust.secrets import mask_text, mask_values

    shown = mask_values(dict(message), secrets)
    for key in ("text", "why"):
        if isinstance(shown.get(key), str):
            shown[key] = mask_text(shown[key])
    return json.dumps(shown)


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _lasted(seconds: float) -> str:
    whole = int(seconds)
    if whole < 60:
        return f"{seconds:.1f} s"
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {whole % 60} s"
