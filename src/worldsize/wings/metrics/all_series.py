"""What a run's scripts have logged in all the ways that are read: worldsize.log, TensorBoard, MLflow."""

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
    """By name, then by source, place and rank; empty ones are left out. `ranks`, `every_rank`: of what worldsize.log
    has written, as `read_logged_values` takes them; `outside`: as `read_series_of_others` does."""
    found = [*read_logged_values(paths, ranks, every_rank), *read_series_of_others(paths, outside)]
    return tuple(sorted((each for each in found if each.points), key=_order))


def read_series_of_others(paths: RunPaths, outside: bool = True) -> list[Series]:
    """What the run's scripts have logged otherwise than with worldsize.log; `outside` of the run directory, too."""
    found: list[Series] = []
    for module, everywhere, inside in _READERS:
        read = getattr(find_module(module), everywhere if outside else inside, None)
        found += read(paths) if read else []
    return found


def _order(series: Series) -> tuple[str, str, str, int]:
    return series.name, series.source, series.place, -1 if series.rank is None else series.rank


def unreadable_files(paths: RunPaths) -> list[str]:
    """Sentences about files that the ranks write where they cannot be read from here."""
    module = find_module("wings.metrics.tensorboard")
    find = getattr(module, "unreadable_files", None)
    return [str(each) for each in find(paths)] if find else []
