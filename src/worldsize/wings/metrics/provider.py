"""The functions of the metrics wing for the core and other wings (`service/providers.py`)."""

from __future__ import annotations

from worldsize.common.named_tuple import Any
from worldsize.errors import DamagedRun
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.run import Run
from worldsize.state.records import Status
from worldsize.wings.metrics.series import Series
from worldsize.wings.metrics.series import current_points as current_points


def efficiency_lines(run: Run, status: Status) -> list[str]:
    """Return at most two lines of text about how well a run that has ended used its CPUs, memory and GPUs. Return an
    empty list if the run was too short, or was not sampled. Never raises."""
    from worldsize.wings.metrics.efficiency_words import efficiency_text

    found = _read_efficiency(run, status)
    return efficiency_text(found, run.paths.attempt) if found else []


def efficiency_data(run: Run, status: Status) -> dict[str, Any] | None:
    """Return the efficiency figures of a run that has ended as a JSON object, as in `efficiency_values`; None if there
    are none. Never raises."""
    from worldsize.wings.metrics.efficiency_words import efficiency_values

    found = _read_efficiency(run, status)
    return efficiency_values(found, run.paths.attempt) if found else None


def _read_efficiency(run: Run, status: Status) -> Any:
    from worldsize.wings.metrics.efficiency_records import read_efficiency

    if not run.is_measured(status):
        return None
    try:
        handle = run.native() or {}
    except DamagedRun:
        return None
    return read_efficiency(run.paths, run.plan, status, handle.get("type") == "local")


def progress_text(paths: RunPaths) -> str:
    """Return the latest values that the attempt of `paths` has logged with `worldsize.log`, such as "step 1200, loss
    0.32, 12 s ago"; "" without any. Never raises."""
    from worldsize.wings.metrics import logged_values

    return logged_values.progress_text(paths)


def read_series(paths: RunPaths, every_rank: bool = True, outside: bool = True) -> tuple[Series, ...]:
    """Return all series of values that the run's scripts have logged with worldsize.log, TensorBoard or MLflow, sorted
    by name. Data that cannot be understood is left out, and long series are thinned. `current_points` leaves out the
    points that a later attempt has repeated.

    Without `every_rank`, a file of worldsize.log is not read if lower ranks have logged all its names, which is much
    faster with many ranks. Without `outside`, TensorBoard files outside the run directory are not read: another user's
    run could name them.
    """
    from worldsize.wings.metrics.all_series import read_all_series

    return read_all_series(paths, None, every_rank, outside)


def read_whole_series(paths: RunPaths, name: str) -> Series | None:
    """Return the values of the name `name` of the lowest rank that has logged it with worldsize.log, not thinned; None
    if no rank has."""
    from worldsize.wings.metrics import logged_values

    return logged_values.read_whole_series(paths, name)


def series_row(series: Series) -> tuple[list[str], str]:
    """Return the row of the table of `worldsize metrics` for a series with points: name, last value, its step, lowest,
    highest, rank, source. Also return a sentence if a value was NaN, else ""."""
    from worldsize.wings.metrics import tables

    return tables.series_row(series)


def read_node_samples(paths: RunPaths, node_rank: int) -> Any:
    """Return the samples of resource use (NodeSamples: `header`, `samples`, `use`) of one node in the attempt of
    `paths`; None if there are none."""
    from worldsize.wings.metrics import samples

    return samples.read_node_samples(paths, node_rank)


def read_parameters(paths: RunPaths) -> dict[str, dict[str, str]]:
    """Return the parameters of each MLflow run in the run directory that has any, by the MLflow run's name as in
    `Series.place`, then by parameter name."""
    from worldsize.wings.metrics import mlflow_store

    return mlflow_store.read_parameters(paths)
