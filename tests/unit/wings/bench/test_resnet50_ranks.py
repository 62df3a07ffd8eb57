"""What ranks of `bench resnet50` compute without a framework: blocks, their times, lists of images, their report."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worldsize.wings.bench.resnet50.ranks.resnet50 import blocks, images, report
from worldsize.wings.bench.resnet50.ranks.resnet50.arguments import explain_missing, fill_in
from worldsize.wings.bench.resnet50.reading import read_measurement
from worldsize.wings.bench.worlds import World


@settings(max_examples=20)
@given(st.integers(1, 100_000))
def test_blocks_have_all_steps_and_are_as_equal_as_can_be(steps):
    sizes = blocks.block_sizes(steps)
    assert sum(sizes) == steps
    assert len(sizes) == min(steps, blocks.MOST_BLOCKS)
    assert max(sizes) - min(sizes) <= 1


def test_the_device_is_waited_for_at_the_ends_of_blocks_alone():
    told = []
    clock = iter([1.0, 3.0, 10.0, 11.5])
    seconds = blocks.time_blocks(
        lambda: told.append("step"), lambda: told.append("wait"), [2, 1], lambda: (told.append("clock"), next(clock))[1]
    )
    assert seconds == [2.0, 1.5]
    assert told == ["wait", "clock", "step", "step", "wait", "clock", "clock", "step", "wait", "clock"]


@pytest.mark.parametrize(
    ("together", "alone", "share"),
    [([4.0, 4.0], [3.0], 0.25), ([4.0, 400.0, 4.0], [4.0], 0.0), ([4.0], [5.0], 0.0)],
)
def test_communication_is_what_steps_take_longer(together, alone, share):
    sizes = [2] * len(together)
    assert blocks.communication_share(together, alone, sizes, sizes[: len(alone)]) == pytest.approx(share)


def test_what_was_not_said_follows_from_the_device():
    said = argparse.Namespace(batch=None, steps=None, warmup=None)
    fill_in(said, gpu=True)
    assert (said.batch, said.steps, said.warmup) == (64, 100, 20)
    said = argparse.Namespace(batch=2, steps=3, warmup=0)
    fill_in(said, gpu=False)
    assert (said.batch, said.steps, said.warmup) == (2, 3, 0)


def make_folder(root, *files):
    for file in files:
        path = root / file
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
    return str(root)


def test_an_image_folder_is_read_in_one_order_with_a_number_for_each_class(tmp_path):
    root = make_folder(tmp_path, "b/2.jpg", "b/1.JPEG", "a/z.png", "a/notes.txt", "README.md")
    assert [(os.path.relpath(path, root), number) for path, number in images.list_images(root)] == [
        ("a/z.png", 0), ("b/1.JPEG", 1), ("b/2.jpg", 1)
    ]  # fmt: skip


def test_what_is_no_file_is_no_image(tmp_path):
    """Whoever opens a pipe waits for ever."""
    root = make_folder(tmp_path, "a/1.jpg")
    os.mkfifo(tmp_path / "a" / "2.jpg")
    (tmp_path / "a" / "3.jpg").mkdir()
    (tmp_path / "a" / "4.jpg").symlink_to("1.jpg")
    (tmp_path / "a" / "5.jpg").symlink_to("missing")
    assert [os.path.basename(path) for path, _ in images.list_images(root)] == ["1.jpg", "4.jpg"]


def test_a_framework_that_is_missing_is_named_with_the_option_that_helps():
    said = str(explain_missing(ModuleNotFoundError("No module named 'torch'")))
    assert said.startswith("No module named 'torch' for %s" % sys.executable)
    assert said.endswith("--environment DIR")


def test_a_rank_that_is_told_to_end_removes_its_images(tmp_path):
    words = [
        "import os, signal, sys",
        "sys.path.insert(0, %r)" % os.path.dirname(os.path.dirname(images.__file__)),
        "from resnet50.images import make_images",
        "make_images(lambda width, height, seed: seed, 0)",
        "assert os.listdir(os.environ['WORLDSIZE_LOCAL_DIR'])",
        "if not os.fork():",  # as a process that loads images
        "    os.kill(os.getpid(), signal.SIGTERM)",
        "os.wait()",
        "assert os.listdir(os.environ['WORLDSIZE_LOCAL_DIR'])",
        "os.kill(os.getpid(), signal.SIGTERM)",
    ]
    environ = {**os.environ, "WORLDSIZE_LOCAL_DIR": str(tmp_path)}
    ended = subprocess.run([sys.executable, "-c", "\n".join(words)], env=environ, timeout=60)
    assert ended.returncode == -signal.SIGTERM
    assert os.listdir(tmp_path) == []


def test_a_folder_without_images_ends_the_rank_with_a_sentence(tmp_path):
    with pytest.raises(SystemExit, match="no image in it"):
        images.list_images(make_folder(tmp_path, "a/notes.txt"))
    with pytest.raises(SystemExit, match="No such file"):
        images.list_images(str(tmp_path / "missing"))


def test_images_are_made_once_per_node_found_by_its_other_ranks_and_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLDSIZE_LOCAL_DIR", str(tmp_path))
    monkeypatch.setenv("WORLDSIZE_RUN_ID", "run")
    directory = images.make_images(lambda width, height, seed: seed, 0)
    assert images.make_images(None, 1) == directory
    found = images.list_images(directory)
    assert len(found) == images.GENERATED_CLASSES * images.GENERATED_PER_CLASS
    with pytest.raises(FileExistsError):  # nothing that anybody else has put there is taken
        images.make_images(lambda width, height, seed: seed, 0)
    images.remove_images(1)
    assert os.path.isdir(directory)
    images.remove_images(0)
    assert os.listdir(tmp_path) == []


def test_a_training_that_diverged_is_no_measure():
    report.check_loss(6.9)
    with pytest.raises(SystemExit, match="diverged"):
        report.check_loss(float("nan"))


def test_what_the_first_rank_writes_is_what_is_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    said = argparse.Namespace(data="/home/me/set", batch=4, steps=2, warmup=0, workers=4, image_size=32, width=8,
                              precision="fp32", share="1/1")  # fmt: skip
    report.write_report(
        said, "torch", 2, [2.0, 1.0], [1, 1],
        loss=6.9, parameters=1, communication=None, gpus=0, device="CPU", threads=1, tf32="off", software={},
    )  # fmt: skip
    found = read_measurement(str(tmp_path / "outputs" / "bench.json"), World(1, 2))
    assert found.rates == (4.0, 8.0)
    assert found.details["data"] == "images"
    assert "/home/me" not in json.dumps(found.details)
    assert capsys.readouterr().out == "ranks=2 images/s=6\n"
