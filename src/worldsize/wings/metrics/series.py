"""Values that a run's scripts have logged by any means, with their names, steps and times."""

from __future__ import annotations

from worldsize.common.named_tuple import NamedTuple


class Point(NamedTuple):
    """A logged value. `step` is the script's own count, None if it gave none. `time` is in Unix seconds. `value` may be
    NaN or infinite."""

    step: int | None
    time: float
    value: float
    attempt: int = 0


class Series(NamedTuple):
    """The values of one name, of all attempts, in the order of attempts and then of time.

    source  "log" (worldsize.log), "tensorboard" or "mlflow"
    rank    the rank that logged the values; None if the source does not contain it
    place   distinguishes equal names of one source: the directory of the TensorBoard file, or the name of the MLflow
            run
    """

    name: str
    source: str
    rank: int | None
    points: tuple[Point, ...]
    place: str = ""


def current_points(points: tuple[Point, ...]) -> tuple[Point, ...]:
    """Return the points of a series that count for the run. An attempt that continues from a checkpoint repeats steps,
    so the points that earlier attempts have logged from its first step on are left out. Points without a step all
    count."""
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
