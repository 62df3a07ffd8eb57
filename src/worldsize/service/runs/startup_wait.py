"""The message about what a run waits for before its ranks start. Each client that follows a start loads this module, so
it imports as little as possible."""

from __future__ import annotations

import os
import time

from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.setup_script import STEP_SUFFIX, current_step
from worldsize.state.exit_records import read_events
from worldsize.state.records import Status

_JOINS_WITHIN = 5.0


def with_startup_wait(paths: RunPaths, status: Status, plan: Plan) -> Status:
    """Return `status` of a starting run with a message about what its ranks wait for: a line of setup, or nodes whose
    agents have not joined the head node. It is unchanged if they wait for neither."""
    said = (plan.setup and _setup_message(paths, len(plan.nodes))) or _unjoined_message(paths, len(plan.agents))
    return status._replace(message=said) if said else status


def _setup_message(paths: RunPaths, nodes: int) -> str:
    there = set(os.listdir(paths.root))
    for node_rank in range(nodes):
        log = paths.setup_log(node_rank)
        step = current_step(log) if os.path.basename(log) + STEP_SUFFIX in there else ""
        if step:
            return f"node {node_rank} executes setup: {step}"
    return ""


def _unjoined_message(paths: RunPaths, nodes: int) -> str:
    """Return the message about nodes whose agents have not joined the head node; "" if none is missing, or the time in
    which nodes normally join is not over."""
    try:
        since = time.time() - os.stat(paths.rendezvous).st_mtime
    except OSError:
        return ""
    if since < _JOINS_WITHIN:
        return ""
    missing = []
    for node_rank in range(1, nodes):
        for event in read_events(paths, node_rank):
            if event.get("event") == "unjoined" and isinstance(event.get("text"), str):
                return str(event["text"])
        if not os.path.exists(paths.events(node_rank)):
            missing.append(node_rank)
    if not missing:
        return ""
    from worldsize.logs.text import format_ranges

    which = "node" if len(missing) == 1 else "nodes"
    return f"the head waits for the agent of {which} {format_ranges(missing)}"
