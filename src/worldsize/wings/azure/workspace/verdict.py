"""The end of a job without agents, determined from the service's reports alone. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from worldsize.agent.outcome.verdict import TIMEOUT_CODE
from worldsize.plan.plan import Plan
from worldsize.state.records import ExitRecord, Failure, Observation, Reason
from worldsize.state.run_state import RUN_CANCELLED_CODE

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(?:Z|\+00:?00)?")
_LIMIT = re.compile(r"time.?limit|timed?.?out|limits\.timeout|maximum.{0,40}(time|duration)", re.IGNORECASE)


def service_time(text: Any) -> float | None:
    """Return `text`, a time in UTC as Azure ML writes it (`2025-01-31T12:00:00.5Z`), as Unix seconds; None if `text` is
    not such a time."""
    found = _TIME.fullmatch(text) if isinstance(text, str) else None
    try:
        whole = datetime.strptime(found[1], "%Y-%m-%dT%H:%M:%S") if found else None
    except ValueError:
        return None
    return whole.replace(tzinfo=timezone.utc).timestamp() + float(found[2] or 0) if whole and found else None


def with_time_limit(seen: Observation, details: Mapping[str, Any], timeout: float | None) -> Observation:
    """Return the observation `seen` of an Azure ML job with the reason TIME_LIMIT if the service has cancelled the job
    for its time limit of `timeout` seconds; otherwise `seen` unchanged. The service has no state for this case: it is
    recognised by the service's text, or by a duration of at least `timeout` seconds. `details` are those of the run
    history."""
    if timeout is None or seen.reason != Reason.CANCELLED_BY_USER:
        return seen
    started, ended = service_time(details.get("startTimeUtc")), service_time(details.get("endTimeUtc"))
    is_over_long = started is not None and ended is not None and ended - started >= timeout
    if not is_over_long and not _LIMIT.search(_cancel_text(details)):
        return seen
    what = f"Azure ML: it reached its time limit, {math.ceil(timeout)} s"
    return seen._replace(reason=Reason.TIME_LIMIT, code=TIMEOUT_CODE, message=what)


def _cancel_text(details: Mapping[str, Any]) -> str:
    warnings = details.get("warnings")
    said = [each.get("message") for each in warnings if isinstance(each, Mapping)] if isinstance(warnings, list) else []
    return " ".join(str(each) for each in (details.get("cancelationReason"), *said) if each)


def end_records(plan: Plan, seen: Observation, started: float, ended: float) -> list[ExitRecord]:
    """Return the ExitRecords of an Azure ML job that has ended, one for each node of `plan`. They are the same for all
    nodes, without a host and without ranks, because the service reports only on the whole job. `seen` is the service's
    report; the end is a success only if it states that the job completed."""
    failure, stop, code = None, None, 0
    if seen.reason == Reason.CANCELLED_BY_USER:
        stop, code = "cancel", RUN_CANCELLED_CODE
    elif seen.code != 0:
        code = seen.code or 1
        stop, failure = "failure", Failure(seen.reason or Reason.NODE_FAILURE, seen.message, None, None, code, ended)
    common = ExitRecord(0, "", plan.attempt, started, ended, (), stop, failure, code)
    return [common._replace(node_rank=node.node_rank) for node in plan.agents]
