"""The reader for everything that a run's scripts have logged: with worldsize.log, TensorBoard and MLflow."""

from __future__ import annotations

from collections.abc import Collection

from worldsize.plan.run_paths import RunPaths
from worldsize.registry import find_module
from worldsize.wings.metrics.logged_values import read_logged_values
from worldsize.wings.metrics.series import Series

_READERS = (
    ("wings.metrics.tensorboard", "read_tensorboard", "read_tensorboard_inside"),
    ("wings.metrics.mlflow_store", "read_mlflow", "read_mlflow"),
)


def read_all_series(
    paths: RunPaths, ranks: Collection[int] | None = None, every_rank: bool = True, outside: bool = True
) -> tuple[Series, ...]:
    """Return all series of values that a run's scripts have logged with worldsize.log, TensorBoard or MLflow and that
    are not empty, sorted by name, then by source, place and rank. `ranks` and `every_rank` apply to the values of
    worldsize.log, as in `read_logged_values`. `outside` is as in `read_series_of_others`."""
    found = [*read_logged_values(paths, ranks, every_rank), *read_series_of_others(paths, outside)]
    return tuple(sorted((each for each in found if each.points), key=_order))


def read_series_of_others(paths: RunPaths, outside: bool = True) -> list[Series]:
    """Return the series of values that the run's scripts have logged with TensorBoard or MLflow, not with
    worldsize.log. With `outside`, files outside the run directory are included."""
    found: list[Series] = []
    for module, everywhere, inside in _READERS:
        read = getattr(find_module(module), everywhere if outside else inside, None)
        found += read(paths) if read else []
    return found


def _order(series: Series) -> tuple[str, str, str, int]:
    return series.name, series.source, series.place, -1 if series.rank is None else series.rank


def unreadable_files(paths: RunPaths) -> list[str]:
    """Return sentences for the user about TensorBoard files that the ranks write at places that cannot be read from
    this machine."""
    module = find_module("wings.metrics.tensorboard")
    find = getattr(module, "unreadable_files", None)
    return [str(each) for each in find(paths)] if find else []
