"""A run's summary, as result.json contains it: everything that a list of runs shows.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from worldsize.common.named_tuple import Any
from worldsize.plan.array import Array
from worldsize.plan.plan import Plan
from worldsize.state.records import Status

_LONGEST = 1000


def summary_of(common: Plan | Array, size: tuple[int, int], status: Status) -> dict[str, Any]:
    """Return the data that `worldsize list` shows of a run, of an array as one row, or of an element of an array, as a
    mapping. `size` is the nodes and ranks of each run. The client reads the result as `store.summaries.Summary`."""
    return {
        "id": common.run_id,
        "name": common.name,
        "state": status.state,
        "reason": status.reason,
        "compute": common.compute,
        "nodes": size[0],
        "ranks": size[1],
        "created": common.created,
        "started": status.started,
        "ended": status.ended,
        "exit_code": status.exit_code,
        **known_labels(common.labels),
    }


def known_labels(labels: object) -> dict[str, Any]:
    """Return {experiment_name, description, tags} from the `labels` of a plan or an array, which may be another user's.
    The first two are text or None, and tags are text by name. The first two are cut after 1,000 characters; job.yml
    contains them whole."""
    said = labels if isinstance(labels, dict) else {}
    texts = {name: said.get(name) for name in ("experiment_name", "description")}
    tags = said.get("tags")
    tags = tags.items() if isinstance(tags, dict) else ()
    return {
        **{name: text[:_LONGEST] if isinstance(text, str) else None for name, text in texts.items()},
        "tags": {name: value for name, value in tags if isinstance(value, str)},
    }


def run_summary(plan: Plan, status: Status) -> dict[str, Any]:
    rehearsal = {"virtual_gpus": plan.rehearsal.gpus} if plan.rehearsal else {}
    return {**summary_of(plan, (len(plan.nodes), plan.world_size), status), **rehearsal}
