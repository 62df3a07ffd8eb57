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
