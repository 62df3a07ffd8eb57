"""TensorFlow itself: data-parallel, with parameter servers, as Azure's guide has it, and by Keras."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from driver import Cli
from training import PATIENCE, ROOT, accuracy, example, needs, ranks, trained

pytestmark = [pytest.mark.timeout(300), needs(".venv-tensorflow")]
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0"}


def test_workers_train_together(place: Cli, world: str) -> None:
    logs = trained(place, example("tensorflow-multiworker"), "--set", "distribution.worker_count=%d" % ranks(world))
    assert accuracy(logs) > 0.9 and "\nreplicas=%d\n" % ranks(world) in logs[0]
    assert len(re.findall(r"^epoch +\d/4  loss=", logs[0], re.MULTILINE)) == 4
    assert not any("accuracy" in log for log in logs[1:])


def test_a_chief_trains_with_a_parameter_server(place: Cli) -> None:
    logs = trained(place, example("tensorflow-ps"))
    assert accuracy(logs) > 0.9 and "\nworkers=2\n" in logs[0]


@pytest.mark.exhaustive
def test_a_worker_that_fails_ends_all(cli: Cli) -> None:
    cli.write(
        "train.py",
        "import json, os, sys, tensorflow as tf\n"
        "strategy = tf.distribute.MultiWorkerMirroredStrategy()\n"
        "for step in range(1000):\n"
        "    strategy.reduce('SUM', strategy.run(lambda: tf.constant(1)), axis=None)\n"
        "    if step == 3 and json.loads(os.environ['TF_CONFIG'])['task']['index'] == 1:\n"
        "        raise ValueError('bad batch')\n",
    )
    cli.write("job.yml", json.dumps(job(command="python train.py")))
    result = cli("run", "job.yml", timeout=PATIENCE)
    failure = cli.status()["failure"]
    assert (result.code, failure["rank"], failure["exception"]["message"]) == (1, 1, "bad batch")


def job(**keys: object) -> dict[str, object]:
    """Two workers on two nodes."""
    return {
        "code": ".",
        "environment": os.path.join(ROOT, ".venv-tensorflow"),
        "distribution": {"type": "tensorflow"},
        "resources": {"instance_count": 2},
        "environment_variables": QUIET,
        **keys,
    }


FIT = """
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
images, digits = np.random.rand(64, 8).astype("float32"), np.random.randint(0, 3, 64)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(3)])
    model.compile(optimizer="sgd", loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(tf.data.Dataset.from_tensor_slices((images, digits)).batch(16), epochs=1, verbose=0)
print("fitted")
"""


@pytest.mark.exhaustive
def test_keras_fit_works_with_the_old_keras_and_the_new_one_is_explained(cli: Cli) -> None:
    cli.write("fit.py", FIT)
    cli.write("job.yml", json.dumps(job(command="python fit.py")))
    result = cli("run", "job.yml", timeout=PATIENCE)
    assert result.code == 1, result
    assert "tensorflow-mirrored-input): Keras 3 cannot train with model.fit" in result.err, "the cause"
    assert "what to do: install Keras 2 in addition" in result.err
    assert "tf-keras" in cli.status()["failure"]["hint"]
    logs = trained(cli, "job.yml", "--set", "environment_variables.TF_USE_LEGACY_KERAS=1")
    assert all("fitted" in log.splitlines() for log in logs)  # who leaves last may complain that the other has gone


@pytest.mark.exhaustive
def test_the_azure_guides_tensorflow_sample(cli: Cli) -> None:
    folder = os.path.join(ROOT, "examples", "azure-tensorflow")
    environ = {**os.environ, **cli.environ}
    done = subprocess.run(
        [sys.executable, "submit.py"], cwd=folder, env=environ, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert (lines[0], lines[-1]) == ("SUCCEEDED", "SUCCEEDED"), done
    assert accuracy([done.stdout]) > 0.85
    assert "distribution.added_property: is not a key of tensorflow; ignored" in done.stderr
    assert [(run["nodes"], run["ranks"]) for run in cli.json("list")] == [(2, 3), (2, 3)]
    assert os.path.exists(cli.path(cli.latest(), "outputs", "keras-model", "model.npz"))
