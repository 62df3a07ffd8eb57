"""`bench resnet50` with tiny settings, by the local compute: ranks of every framework, from the words to the files."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from driver import SOURCE, Cli

pytest.importorskip("torch")

pytestmark = [pytest.mark.timeout(300), pytest.mark.training]
ROOT = os.path.dirname(SOURCE)
TINY = ("--image-size", "32", "--batch", "2", "--steps", "2", "--warmup", "1")


def measured(cli: Cli, worlds: str, *words: str, code: int = 0) -> dict[str, Any]:
    """The result, as it was written, of a benchmark that ends with `code`."""
    said = cli("bench", "resnet50", "-w", worlds, "--to", "found", *TINY, *words, timeout=280)
    assert said.code == code, said
    result: dict[str, Any] = json.loads(Path(cli.project, "found", "result.json").read_text())
    assert "tiny settings, no ResNet-50 figure" in result["title"]
    return result


def environment(name: str) -> tuple[str, str]:
    path = os.path.join(ROOT, name)
    if not os.path.exists(path):
        pytest.skip("needs the environment %s" % name)
    return "--environment", path


def test_ranks_of_each_world_train_and_what_they_measure_is_the_result(cli: Cli) -> None:
    result = measured(cli, "1x1,1x2", "--width", "4", "--set", "threads=1")
    one, two = result["measurements"]
    for each, ranks in ((one, 1), (two, 2)):
        details = each["details"]
        expected = [ranks * 2 * steps for steps in (1, 1)]
        assert each["rate"] > 0
        assert len(each["rates"]) == len(expected)
        assert (details["batch"], details["threads"], details["device"], each["gpus"]) == (2, 1, "CPU", 0)
        assert details["software"]["framework"].startswith("PyTorch ")
        assert details["software"]["collectives"] == "gloo"
    assert one["communication"] == 0.0
    assert 0.0 <= two["communication"] < 1.0


@pytest.mark.exhaustive
def test_one_two_four_and_eight_ranks_are_told_beside_each_other(cli: Cli) -> None:
    words = ("--width", "4", "--data", "synthetic", "--set", "threads=1", "--to", "found")
    said = cli("bench", "resnet50", "-w", "1x1,1x2,1x4,1x8", *TINY, *words, timeout=280)
    assert said.code == 0, said
    result = json.loads(Path(cli.project, "found", "result.json").read_text())
    measurements = result["measurements"]
    assert [tuple(each["world"].values()) for each in measurements] == [(1, 1), (1, 2), (1, 4), (1, 8)]
    assert all(each["rate"] > 0 and each["details"]["data"] == "synthetic" for each in measurements)
    for word in ("images/s", "speed-up", "efficiency", "1x8"):
        assert word in said.out, said.out


@pytest.mark.exhaustive
def test_images_are_decoded_from_a_folder_and_from_generated_files(cli: Cli, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for number in range(6):
        folder = tmp_path / "a set" / ("class-%d" % (number % 2))
        folder.mkdir(parents=True, exist_ok=True)
        image.frombytes("RGB", (20, 10), os.urandom(600)).save(folder / ("%d.jpg" % number))
    (found,) = measured(cli, "2x1", "--width", "4", "--workers", "1", "--data", str(tmp_path / "a set"))["measurements"]
    assert (found["details"]["data"], found["details"]["workers"]) == ("images", 1)
    place = tmp_path / "scratch"
    place.mkdir()
    words = ("--width", "4", "--workers", "0", "--data", "generated", "--to", "generated", "--precision", "bf16")
    said = cli("bench", "resnet50", "-w", "1x2", *TINY, *words, timeout=280, WORLDSIZE_LOCAL_DIR=str(place))
    assert said.code == 0, said
    assert [name for name in os.listdir(place) if name.startswith("worldsize-bench")] == []


@pytest.mark.exhaustive
def test_what_a_cpu_cannot_compute_is_a_sentence_of_the_rank(cli: Cli) -> None:
    (found,) = measured(cli, "1x1", "--precision", "fp16", code=1)["measurements"]
    assert found["rate"] is None
    said = cli("logs", cli.latest()).out
    assert "--precision fp16 is for GPUs, and PyTorch sees none here" in said


@pytest.mark.exhaustive
def test_horovod_trains_the_same_network(cli: Cli) -> None:
    words = environment(".venv-horovod")
    result = measured(cli, "1x1,1x2", "--framework", "horovod", "--width", "4", *words)
    assert "Horovod with PyTorch" in result["title"]
    one, two = result["measurements"]
    assert one["details"]["parameters"] == two["details"]["parameters"]
    assert two["details"]["software"]["framework"].startswith("Horovod ")
    assert 0.0 <= two["communication"] < 1.0


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "data"), [(".venv-tensorflow", "generated"), (".venv-horovod", "synthetic")])
def test_tensorflow_trains_the_network_of_keras_3_and_of_keras_2(cli: Cli, name: str, data: str) -> None:
    words = (*environment(name), "--data", data)
    (found,) = measured(cli, "1x2", "--framework", "tensorflow", *words)["measurements"]
    assert found["details"]["data"] == data
    assert found["details"]["parameters"] == 25_636_712
    assert found["details"]["software"]["framework"].startswith("TensorFlow ")
    assert found["communication"] is None


_BATCHES = """
import argparse, sys
from resnet50.tensorflow_images import image_batches
said = argparse.Namespace(image_size=32, batch=3, workers=0)
images, labels = next(image_batches(said, sys.argv[1], (0, 1)))
assert (images.shape, labels.shape) == ((3, 32, 32, 3), (3,)), (images.shape, labels.shape)
"""


@pytest.mark.exhaustive
def test_tensorflow_decodes_what_a_file_holds_whatever_its_name(tmp_path: Path) -> None:
    """One of ImageNet's images is a PNG by the name of a JPEG."""
    _, prefix = environment(".venv-tensorflow")
    folder = tmp_path / "set" / "class"
    folder.mkdir(parents=True)
    image = pytest.importorskip("PIL.Image").frombytes("RGB", (20, 10), os.urandom(600))
    for file, kind in (("1.jpg", "JPEG"), ("2.png", "PNG"), ("3.JPEG", "PNG")):
        image.save(folder / file, kind)
    code = os.path.join(SOURCE, "worldsize", "wings", "bench", "resnet50", "ranks")
    words = [os.path.join(prefix, "bin", "python"), "-c", _BATCHES, str(tmp_path / "set")]
    environ = {**os.environ, "PYTHONPATH": code, "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run(words, env=environ, check=True, timeout=200)
