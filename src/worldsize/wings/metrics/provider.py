"""What the core and other wings ask of metrics (`service/providers.py`)."""

from __future__ import annotations

from worldsize.common.named_tuple import Any
from worldsize.errors import DamagedRun
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.run import Run
from worldsize.state.records import Status
from worldsize.wings.metrics.series import Series


def efficiency_lines(run: Run, status: Status) -> list[str]:
    """At most two lines of how well a run that has ended used what it held; none where it was too short to tell, or was
    not sampled. Never raises."""
    from worldsize.wings.metrics.efficiency_words import efficiency_text

    found = _read_efficiency(run, status)
    return efficiency_text(found, run.paths.attempt) if found else []


def efficiency_data(run: Run, status: Status) -> dict[str, Any] | None:
    """The figures behind `efficiency_lines`, as `efficiency_values` has them; None where there are none. Never
    raises."""
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
    """ "step 1200, loss 0.32, 12 s ago" of the latest values that the run has logged; "" without any. Never raises."""
    return ""


def read_series(paths: RunPaths) -> tuple[Series, ...]:
    """All that the run's scripts have logged, by name; what cannot be understood is left out."""
    return ()


def read_node_samples(paths: RunPaths, node_rank: int) -> Any:
    """The NodeSamples of one node in the attempt of `paths`; None where there are none."""
    return None
