"""The values that a run's scripts have written for TensorBoard, as series, and the files that cannot be read here."""

from __future__ import annotations

from worldsize.plan.run_paths import RunPaths
from worldsize.wings.metrics.series import Series
from worldsize.wings.metrics.tensorboard import event_files
from worldsize.wings.metrics.tensorboard.event_files import UnreadableFile
from worldsize.wings.metrics.tensorboard.scalars import ScalarReader, read_files


def read_tensorboard(paths: RunPaths) -> list[Series]:
    """Return the scalars that a run's scripts have written for TensorBoard in all attempts as series, sorted by name
    and place. Never raises because of the content of the files."""
    return open_tensorboard(paths).series()


def read_tensorboard_inside(paths: RunPaths) -> list[Series]:
    """Return the scalars that a run's scripts have written for TensorBoard as `read_tensorboard`, but only of the files
    in the run directory."""
    return open_tensorboard(paths, outside=False).series()


def open_tensorboard(paths: RunPaths, outside: bool = True) -> ScalarReader:
    """Read the TensorBoard files of a run, and return the reader, which has the series and knows which files are
    damaged and how many were left out. Without `outside`, only files in the run directory are read."""
    return read_files(event_files.event_files(paths, outside))


def unreadable_files(paths: RunPaths) -> list[UnreadableFile]:
    """Return the TensorBoard files that ranks write at places that cannot be read from this machine. Converted to text,
    each is a sentence."""
    return event_files.unreadable_files(paths)
