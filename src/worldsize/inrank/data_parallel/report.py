"""What a rank has seen, written when it ends: beside the run's other records."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .state import Training


def write(training: Training) -> None:
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
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, "rank-%05d.json" % training.rank), "w") as file:
            json.dump(told, file)
    except OSError:
        pass  # a full disk must not fail a training that has succeeded
