"""Values that a run's scripts have logged, whichever way they did: the names, the steps, the times."""

from __future__ import annotations

from worldsize.common.named_tuple import NamedTuple


class Point(NamedTuple):
    """One value. `step` is the script's own count, None where it gave none; `time` is in Unix seconds; `value` may be
    NaN or infinite."""

    step: int | None
    time: float
    value: float
    attempt: int = 0


class Series(NamedTuple):
    """The values of one name, of all attempts, in the order of attempts and then of time.

    source  "log" (worldsize.log), "tensorboard" or "mlflow"
    rank    whose it is; None where the source does not say
    place   tells equal names of one source apart: the directory of the TensorBoard file, the name of the MLflow run
    """

    name: str
    source: str
    rank: int | None
    points: tuple[Point, ...]
    place: str = ""


def current_points(points: tuple[Point, ...]) -> tuple[Point, ...]:
    """Return the points that count: an attempt that goes on from a checkpoint repeats steps, and what the attempts
    before it have logged from its first step on is left out. Points without a step all count."""
    kept: list[Point] = []
    first: float = float("inf")
    attempt = points[-1].attempt if points else 0
    begins = first
    for point in reversed(points):
        if point.attempt != attempt:
            attempt, first = point.attempt, min(first, begins)
        if point.step is None or point.step < first:
            kept.append(point)
        if point.step is not None:
            begins = min(begins, point.step)
    return tuple(reversed(kept))
