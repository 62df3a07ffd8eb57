"""What a rank has seen, written when it ends: beside the run's other records."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .rank_state import Training


def write_report(training: Training) -> None:
    """Into the attempt's directory: samples, batches, steps."""
    if not training.run_dir or not (training.backwards or training.steps):
        return
    directory = os.path.join(training.run_dir, "attempt-" + training.attempt, "data-parallel")
    told = {
        "mode": training.mode,
        "left_alone": not training.active,
        "samples": training.samples,
        "batches": training.counts,
        "backwards": training.backwards,
        "steps": training.steps,
    }
    training.active = False
    try:
        mode = os.stat(os.path.dirname(directory)).st_mode & 0o777  # whatever the rank's umask is
        os.makedirs(directory, mode, exist_ok=True)
        path = os.path.join(directory, f"rank-{training.rank:05d}.json")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode & 0o666), "w") as file:
            json.dump(told, file)
    except OSError:
        pass  # a full disk must not fail a training that has succeeded
