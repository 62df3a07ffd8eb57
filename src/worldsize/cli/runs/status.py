"""The verb status: one run's state, as text and as data."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence

from worldsize.cli.console import (
    add_output_option,
    add_run_argument,
    count_text,
    duration_text,
    find_runs,
    rehearsal_text,
    size_text,
    tags_text,
    warnings_text,
)
from worldsize.cli.output import lines_of, show, show_json, state_text
from worldsize.cli.runs.notices import node_notices, notice_lines, notices_data
from worldsize.cli.runs.times import with_times
from worldsize.cli.runs.wait_and_usage import usage_text, waiting_data, waiting_lines, warning_lines
from worldsize.common.atomic_files import printable_text, read_object
from worldsize.common.named_tuple import Any
from worldsize.errors import NotFound, WorldsizeError
from worldsize.service.runs.measurements import efficiency_data, efficiency_lines, present_hang, progress_text
from worldsize.service.runs.run import Run
from worldsize.state.notices import HANG
from worldsize.state.records import RunState, Status
from worldsize.state.summary import known_labels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.cli.runs.array_status import ArrayView
    from worldsize.service.runs.array import RunArray
    from worldsize.state.hang import Hang

_EXPLAINED_WITHIN = 5.0
_DATA_KEYS = (
    "threads", "binding", "progress", "hang", "failure", "usage", "efficiency", "waiting", "message", "warnings",
    "notices", "page", "directory", "elements",
)  # fmt: skip
"""The order of the further keys in the data for programs."""

_EXAMPLES = """examples:
  worldsize status                            the latest run
  worldsize status 417k -o json"""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    add_run_argument(parser)
    add_output_option(parser)
    parser.set_defaults(act=show_status)


class RunView:
    """The part of the output that is shown for single runs only, in addition to the part that is shown for arrays too.

    data         further values for programs
    remark       the text after its size
    details      further lines below its name
    efficiency   how well it used its nodes, once it has ended
    explanation  why it waits, or failed
    outcome      the text after its state at the end of a wait for it, and further lines
    """

    def __init__(self, run: Run) -> None:
        self._run = run

    def data(self, statuses: Sequence[Status]) -> dict[str, Any]:
        """Return the values of a single run that `status -o json` prints in addition to those of every run or array:
        {warnings}, and for a run with a plan also {threads, binding, progress, hang, failure, efficiency, waiting,
        notices, page}."""
        from worldsize.service.runs.failure_screen import failure_data

        run, now = self._run, statuses[0]
        data: dict[str, Any] = {"warnings": [warning._asdict() for warning in now.warnings]}
        if run.has_plan():
            data["threads"] = threads_of(run)
            data["binding"] = run.plan.bind
            data["progress"] = progress_text(run, now) or None
            data["hang"] = _hang_data(present_hang(run, now))
            data["failure"] = failure_data(run.paths, run.plan, now)
            data["efficiency"] = efficiency_data(run, now)
            data["waiting"] = waiting_data(run.wait_explanation(now, _EXPLAINED_WITHIN))
            data["notices"] = notices_data(run.paths, self._node_ranks())
            data.update({"page": page} if (page := page_of(run)) else {})
        return data

    def remark(self) -> str:
        return rehearsal_text(self._run.plan)

    def details(self, statuses: Sequence[Status]) -> list[str]:
        plan = self._run.plan
        told = node_notices(self._run.paths, self._node_ranks())
        said = [notice.text for notice in told if notice.id != HANG]  # a present hang has its own line
        hang = present_hang(self._run, statuses[0])
        bound = "CPUs not bound" if plan.bind == "none" else "CPUs bound"
        lines = [] if hang is None else [_stuck_line(hang), f"details: worldsize why {self._run.id}"]
        lines += [f"{_threads_text(threads_of(self._run))}; {bound}", *notice_lines(said)]
        lines += filter(None, [progress_text(self._run, statuses[0]), page_of(self._run)])
        if not plan.array:
            return lines
        from worldsize.cli.runs.array_status import array_element_text

        return [array_element_text(self._run), *lines]

    def _node_ranks(self) -> list[int]:
        return [node.node_rank for node in self._run.plan.agents]

    def efficiency(self, statuses: Sequence[Status]) -> list[str]:
        return efficiency_lines(self._run, statuses[0])

    def explanation(self, statuses: Sequence[Status]) -> list[str]:
        now = statuses[0]
        why = self._run.wait_explanation(now, _EXPLAINED_WITHIN)
        if why is not None:
            return waiting_lines(why)
        if now.failure is None and not now.message:
            return []
        from worldsize.service.runs.failure_screen import run_failure_lines  # most runs do not need it

        return run_failure_lines(self._run, now)

    def outcome(self, statuses: Sequence[Status]) -> list[str]:
        now = statuses[0]
        shown = rehearsal_text(self._run.plan) if self._run.has_plan() else ""
        lost = now.state == RunState.LOST and now.reason
        reason = f": {now.reason}" if lost else ""
        more = lines_of(now.message) if lost else self.efficiency(statuses)
        return [reason + shown + warnings_text(now), *more]

    def remains_text(self, found: int) -> str:
        return ended_text(found)


def _hang_data(hang: Hang | None) -> dict[str, Any] | None:
    if hang is None:
        return None
    return {"since": hang.since, "sentence": hang.sentence, "standing": hang.standing, "ranks": list(hang.ranks)}


def _stuck_line(hang: Hang) -> str:
    """Return the line of `status` about a hang of the run: "stuck since 14:03:11 (12 min): rank 13 has not entered
    all_reduce #288"."""
    seconds = max(0.0, time.time() - hang.since)
    return f"stuck since {hang.since_text} ({duration_text(seconds)}): {hang.sentence}"


def threads_of(run: Run) -> int | None:
    """Return the number of threads of each rank (OMP_NUM_THREADS): the job's value, else the value where the run was
    started, else the plan's share; None if each node determines its own, or if the value is no number."""
    recorded = read_object(run.paths.record).get("environment")
    inherited = recorded.get("OMP_NUM_THREADS") if isinstance(recorded, dict) else None
    said = run.plan.environment.get("OMP_NUM_THREADS") or inherited
    if said:
        return int(said) if str(said).isdecimal() else None
    return run.plan.threads


def page_of(run: Run) -> str:
    """Return the URL of the run's web page at its compute; "" if it has none, or if its native id cannot be read."""
    try:
        return str((run.native() or {}).get("page") or "")
    except WorldsizeError:
        return ""  # the run's state shows the error


def _threads_text(threads: int | None) -> str:
    if threads is None:
        return "threads per rank: the node's cores, divided evenly"
    return f"{count_text(threads, 'thread')} per rank"


def view_of(runs: Run | RunArray) -> RunView | ArrayView:
    if isinstance(runs, Run):
        return RunView(runs)
    from worldsize.cli.runs.array_status import ArrayView

    return ArrayView(runs)


def show_status(options: argparse.Namespace) -> int:
    runs = find_runs(options.run)
    statuses = runs.statuses()
    if not os.path.isdir(runs.directory):
        raise NotFound(f"its directory was deleted: {runs.directory}", f"{runs.noun} {runs.id}")
    if options.output == "json":
        show_json(status_data(runs, statuses))
    else:
        show(*_status_lines(runs, statuses))
    return 0


def status_data(runs: Run | RunArray, statuses: Sequence[Status], patience: float = 0.0) -> dict[str, Any]:
    """Return the status of a run or an array as the dictionary that `status -o json` prints: {id, name, state, reason,
    exit_code, …, usage, message, directory}, with the values for a run or an array only. `patience` is the time in
    seconds to wait for the usage of runs that have just ended."""
    now = runs.overall(statuses)
    data = {"id": runs.id, "state": now.state, "reason": now.reason, "exit_code": now.exit_code}
    more = {**view_of(runs).data(statuses), "message": now.message, "directory": runs.directory}
    if runs.has_plan():
        data = runs.summary(statuses)
        used = runs.usage(statuses, patience)
        more["usage"] = used._asdict() if used else None
    return with_times({**data, **{key: more[key] for key in _DATA_KEYS if key in more}})


def _status_lines(runs: Run | RunArray, statuses: Sequence[Status]) -> list[str]:
    view, now = view_of(runs), runs.overall(statuses)
    reason = f" ({now.reason})" if now.reason else ""
    lines = [f"{runs.id}  {state_text(now.state, sys.stdout)}{reason}{warnings_text(now)}", *warning_lines(now)]
    if runs.has_plan():
        lines.append(f"{printable_text(runs.common.name)}: {size_text(runs)}{view.remark()}")
        lines += _label_lines(runs)
        lines += view.details(statuses)
        lines.append(f"made {duration_text(time.time() - runs.common.created)} ago{_took_text(now)}")
        lines += ["used " + text for text in [usage_text(runs.usage(statuses))] if text]
        lines += view.efficiency(statuses)
    lines.append(runs.directory)
    words = view.explanation(statuses)
    return [*lines, "", *words] if words else lines


def _label_lines(runs: Run | RunArray) -> list[str]:
    """Return the lines of `status` with the labels by which users sort runs: the experiment, the tags and the
    description. Missing labels have no line."""
    said = known_labels(runs.common.labels)
    words = {"experiment": said["experiment_name"], "tags": tags_text(said["tags"]), "description": said["description"]}
    return [f"{name}: {printable_text(text)}" for name, text in words.items() if text]


def _took_text(now: Status) -> str:
    if now.started is None:
        return ""
    return f", ran for {duration_text((now.ended or time.time()) - now.started)}"


def ended_text(found: int) -> str:
    """Return the text after a run's state that states that `found` processes of the run were left over and have been
    ended: "; ended 2 processes that were left of it"; "" for none."""
    if found == 0:
        return ""
    return "; ended {} left of it".format("1 process that was" if found == 1 else f"{found} processes that were")
