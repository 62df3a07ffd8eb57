"""Scripts that log with TensorBoard's writers, unmodified: what is read from their files is what TensorBoard reads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from driver import Cli
from training import PATIENCE, ROOT, needs

from worldsize.plan.run_paths import RunPaths
from worldsize.wings.metrics.series import Series
from worldsize.wings.metrics.tensorboard import read_tensorboard
from worldsize.wings.metrics.tensorboard.scalars import EventFile, read_files

pytestmark = pytest.mark.timeout(300)

TORCH = """\
import os
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter()
for step in range(50):
    writer.add_scalar("train/loss", 1 / (step + 1) + int(os.environ["RANK"]), step)
    writer.add_scalars("group", {"a": step, "b": -step}, step)
writer.add_scalar("accuracy", 0.5)
writer.add_text("notes", "hello")
writer.add_hparams({"lr": 0.1}, {"hparam/loss": 0.25})
writer.close()
"""

ALL_KINDS = """\
import sys, numpy
from %s import SummaryWriter
writer = SummaryWriter(sys.argv[1])
for step in range(-3, 300):
    writer.add_scalar("loss", 1 / (step + 4), step)
    writer.add_scalar("odd/\\u00e9_name", float("nan") if step == 7 else step * 1e30, step * 10**12)
writer.add_scalar("new", 0.25, 3, **%s)
writer.add_histogram("weights", numpy.arange(10000.0), 1)
writer.add_image("image", numpy.zeros((3, 600, 900)), 1)
writer.add_text("notes", "hello", 1)
writer.add_scalar("last", float("inf"), 1)
writer.close()
"""

TENSORFLOW = """\
import sys, tensorflow as tf
with tf.summary.create_file_writer(sys.argv[1]).as_default():
    for step in range(40):
        tf.summary.scalar("loss", 1 / (step + 1), step=step)
        tf.summary.scalar("whole", step, step=step)
        tf.summary.scalar("double", tf.constant(step / 3, tf.float64), step=step)
    tf.summary.text("notes", "hello", step=1)
    tf.summary.histogram("weights", tf.range(1000.0), step=1)
"""

KERAS = """\
import sys, numpy, keras
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile(loss="mse", optimizer="sgd", metrics=["mae"])
data = numpy.ones((32, 4)), numpy.zeros(32)
board = keras.callbacks.TensorBoard(sys.argv[1], histogram_freq=1, update_freq="batch")
model.fit(*data, epochs=3, batch_size=8, validation_data=data, callbacks=[board], verbose=0)
"""


def loss_of(series: list[Series], rank: int) -> list[float]:
    (found,) = (each for each in series if each.name == "train/loss" and each.rank == rank)
    return [point.value for point in found.points]


def test_a_script_of_torch_in_two_ranks(cli: Cli) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("tensorboard")
    cli.write("train.py", TORCH)
    run = cli.run("-w", "1x2", "--", sys.executable, "train.py")
    found = read_tensorboard(RunPaths(cli.path(run)))
    for rank in (0, 1):
        assert loss_of(found, rank) == pytest.approx([1 / (step + 1) + rank for step in range(50)])
    names = {(each.name, each.rank) for each in found}
    assert {("group", 0), ("group", 1), ("accuracy", 0), ("hparam/loss", 0)} <= names
    assert "notes" not in {name for name, _ in names}
    assert all(each.place.startswith("code/runs/") for each in found)


def tensorboards_own(directory: Path) -> dict[tuple[str, str], list[tuple[int, float, str]]]:
    """What TensorBoard itself reads, by file and name."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found: dict[tuple[str, str], list[tuple[int, float, str]]] = {}
    for path in sorted(directory.rglob("*tfevents*")):
        events = EventAccumulator(str(path), {"scalars": 0, "tensors": 0}, purge_orphaned_data=False).Reload()
        for tag in events.Tags()["scalars"]:
            found[str(path), tag] = [(each.step, each.wall_time, repr(each.value)) for each in events.Scalars(tag)]
        for tag in events.Tags()["tensors"]:
            if events.SummaryMetadata(tag).plugin_data.plugin_name == "scalars":
                found[str(path), tag] = [(each.step, each.wall_time, number(each)) for each in events.Tensors(tag)]
    return found


def number(event: Any) -> str:
    from tensorboard.util.tensor_util import make_ndarray

    return repr(float(make_ndarray(event.tensor_proto).item()))


def read_here(directory: Path) -> dict[tuple[str, str], list[tuple[int, float, str]]]:
    paths = map(str, sorted(directory.rglob("*tfevents*")))
    reader = read_files(EventFile(path, path) for path in paths)
    assert not reader.damaged and not reader.left_out
    return {
        (each.place, each.name): [(point.step or 0, point.time, repr(point.value)) for point in each.points]
        for each in reader.series()
    }


def write(python: str, script: str, directory: Path, **environ: str) -> None:
    environ = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow", **environ}
    subprocess.run([python, "-c", script, str(directory)], check=True, env=environ, timeout=PATIENCE)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("package", "form"),
    [
        ("torch.utils.tensorboard", "{}"),
        ("torch.utils.tensorboard", "{'new_style': True}"),
        ("torch.utils.tensorboard", "{'new_style': True, 'double_precision': True}"),
        ("tensorboardX", "{}"),
        ("tensorboardX", "{'summary_description': 'x'}"),
    ],
)
def test_files_are_read_as_tensorboard_reads_them(tmp_path: Path, package: str, form: str) -> None:
    pytest.importorskip(package)
    pytest.importorskip("tensorboard")
    write(sys.executable, ALL_KINDS % (package, form), tmp_path)
    found = read_here(tmp_path)
    assert found == tensorboards_own(tmp_path)
    assert {tag for _, tag in found} == {"loss", "odd/é_name", "new", "last"}


@pytest.mark.exhaustive
@needs(".venv-tensorflow")
@pytest.mark.parametrize(("script", "names"), [(TENSORFLOW, {"loss", "whole", "double"}), (KERAS, {"epoch_loss"})])
def test_files_of_tensorflow_and_keras(tmp_path: Path, script: str, names: set[str]) -> None:
    tensorboard = pytest.importorskip("tensorboard")
    beside = os.path.dirname(os.path.dirname(tensorboard.__file__))
    write(os.path.join(ROOT, ".venv-tensorflow", "bin", "python"), script, tmp_path, PYTHONPATH=beside)
    found = read_here(tmp_path)
    assert found == tensorboards_own(tmp_path) and names <= {tag for _, tag in found}
