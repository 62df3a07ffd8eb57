"""Where one followed run's time goes: its stages, as programs/watched.py and the run's own events note them."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from harness import run

WATCHED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "watched.py")
STAGES = {
    "interpreter starts": "started",
    "the command line is imported": "imported",
    "words parsed, the verb's modules imported, configuration read, plan made": "run",
    "run directory made, code snapshotted": "snapshot",
    "job, plan, record and agent written; local compute imported": "fork",
    "conductor forked": "conductor",
    "rendezvous opened, agent forked": "agent",
    "agent up, first rank's environment made": "spawn",
    "all ranks started": "ranks_started",
    "ranks run and end": "rank_exited",
    "exit record and result written": "result",
    "result noticed": "look",
    "last words, exit": "exit",
}
"""What happens in each stage, and the mark that ends it."""


class Trace(NamedTuple):
    """Seconds of the whole command, and of each stage."""

    total: float
    spans: Mapping[str, float]


def trace(words: Sequence[str], environ: Mapping[str, str], cwd: str) -> Trace:
    """Run `worldsize WORDS` in a store of its own parent's making, watched; where its time went."""
    runs = os.path.join(environ["WORLDSIZE_HOME"], "runs") + os.sep
    notes = os.path.join(environ["WORLDSIZE_HOME"], "notes")
    os.makedirs(runs, 0o700, exist_ok=True)
    before = set(os.listdir(runs))
    began = time.time()
    total = run([sys.executable, WATCHED, notes, runs, *words], environ, cwd)
    ended = time.time()
    with open(notes, encoding="ascii") as file:
        marks = [line.split() for line in file]
    os.unlink(notes)
    (run_id,) = (name for name in os.listdir(runs) if name not in before and not name.startswith("."))
    moments = {"exit": ended, **_events(os.path.join(runs, run_id))}
    for stage, moment in reversed(marks):
        if stage != "look" or stage not in moments:
            moments[stage] = float(moment)
    spans = {}
    for name, mark in STAGES.items():
        spans[name] = moments[mark] - began
        began = moments[mark]
    return Trace(total, spans)


def _events(directory: str) -> dict[str, float]:
    """The last moment of each kind of event that the agent wrote down."""
    with open(os.path.join(directory, "attempt-0", "events", "node-0000.jsonl"), encoding="utf-8") as file:
        events = [json.loads(line) for line in file]
    return {event["event"]: event["time"] for event in events}
