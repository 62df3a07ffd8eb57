"""`bench resnet50`: what its options ask for, what stands in the title, the job of each world."""

from __future__ import annotations

import argparse
import os

import pytest

from worldsize.errors import UsageError
from worldsize.jobspec.config.compute_types import LOCAL
from worldsize.jobspec.config.config import ComputeSettings, Config
from worldsize.wings.bench.resnet50 import benchmark
from worldsize.wings.bench.resnet50.ranks.resnet50 import arguments as of_ranks
from worldsize.wings.bench.result import BenchResult
from worldsize.wings.bench.session import Session
from worldsize.wings.bench.worlds import World


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    benchmark.add_options(parser.add_argument_group("resnet50"))
    return parser.parse_args(words)


def words(*said: str) -> list[str]:
    return list(benchmark.job_of(options(*said), World(2, 2), "/project").argv)


ONE_AND_FOUR = (World(1, 1), World(1, 4))


class Recorded(Session):
    """A session that runs nothing: the jobs of its worlds are kept."""

    def measure_worlds(self, empty, make_job, read, lines=None):
        jobs.extend(make_job(world) for world in self.worlds)
        return empty


jobs: list = []


def measured(tmp_path, *said: str, worlds=ONE_AND_FOUR, settings=()) -> BenchResult:
    jobs.clear()
    config = Config(home=str(tmp_path), computes={"local": ComputeSettings("local", LOCAL)})
    session = Recorded(config, None, {}, "/project", str(tmp_path), worlds, settings)
    return benchmark.measure(options(*said), session)


def test_the_standard_network_has_a_title_that_says_what_is_measured():
    title = benchmark.title(options())
    assert title == "ResNet-50, PyTorch DDP, synthetic data, fp32"
    assert benchmark.title(options("--data", "/set", "--framework", "horovod", "--precision", "bf16")) == (
        "ResNet-50, Horovod with PyTorch, an image folder, bf16"
    )


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (("--image-size", "32"), "images of 32 × 32"),
        (("--width", "8"), "8 channels at first"),
        (("--image-size", "64", "--width", "8", "--batch", "2"), "images of 64 × 64, 8 channels at first, batch 2"),
    ],
)
def test_whatever_makes_it_another_network_stands_in_the_title(said, shown):
    assert benchmark.title(options(*said)).endswith("; %s: tiny settings, no ResNet-50 figure" % shown)


def test_standard_numbers_that_are_spelled_out_are_no_tiny_settings():
    said = options("--image-size", "224", "--width", "64", "--batch", "256", "--steps", "5")
    assert "tiny" not in benchmark.title(said)
    assert (of_ranks.STANDARD_SIZE, of_ranks.STANDARD_WIDTH) == (benchmark.STANDARD_SIZE, benchmark.STANDARD_WIDTH)


@pytest.mark.parametrize(
    ("said", "where"),
    [
        (("--batch", "0"), "--batch"),
        (("--steps", "0"), "--steps"),
        (("--warmup", "-1"), "--warmup"),
        (("--workers", "-1"), "--workers"),
        (("--image-size", "31"), "--image-size"),
        (("--width", "2000000"), "--width"),
        (("--framework", "tensorflow", "--width", "8"), "--width"),
        (("--data", ""), "--data"),
        (("--data", "synthetic,/set"), "--data"),
    ],
)
def test_what_cannot_be_measured_is_refused_by_its_option(said, where, tmp_path):
    with pytest.raises(UsageError) as refused:
        measured(tmp_path, *said)
    assert refused.value.where == where
    assert not jobs


def test_virtual_gpus_have_no_speed(tmp_path):
    with pytest.raises(UsageError, match="virtual GPUs have no speed"):
        measured(tmp_path, settings=("virtual_gpus=2",))


def test_ranks_are_told_what_was_said_and_no_more():
    assert words() == ["python", "-m", "resnet50.torch_ddp", "--data", "synthetic", "--precision", "fp32"]
    assert words("--batch", "64", "--warmup", "0", "--image-size", "32")[7:] == [
        "--batch", "64", "--warmup", "0", "--image-size", "32"
    ]  # fmt: skip


def test_a_directory_is_an_input_of_the_job_so_that_nodes_find_it_where_it_is_for_them():
    job = benchmark.job_of(options("--data", "a directory"), World(1, 1), "/project")
    assert job.inputs["data"].path == "/project/a directory"
    assert job.argv[job.argv.index("--data") + 1] == "${{inputs.data}}"


@pytest.mark.parametrize(
    ("framework", "type_", "processes"),
    [("torch", "pytorch", 2), ("horovod", "horovod", 2), ("tensorflow", "tensorflow", None)],
)
def test_each_framework_has_its_distribution_and_all_ranks_of_the_world(framework, type_, processes):
    job = benchmark.job_of(options("--framework", framework), World(2, 2), "/")
    assert job.distribution.type == type_
    assert job.distribution.world_size(job.resources.instance_count) == 4
    assert getattr(job.distribution, "process_count_per_instance", None) == processes


def test_the_code_of_ranks_is_there_with_the_module_that_they_execute():
    job = benchmark.job_of(options(), World(1, 1), "/")
    for module in benchmark.MODULES.values():
        assert os.path.isfile(os.path.join(job.code, "resnet50", module + ".py"))


def test_a_rank_has_as_many_threads_in_every_world(tmp_path, monkeypatch):
    measured(tmp_path, worlds=(World(1, 1), World(1, 2), World(2, 2)))
    shares = [job.argv[-1] for job in jobs]
    assert shares == ["1/4", "2/4", "4/4"]
    for share, given in zip(shares, ("8", "4", "2"), strict=True):  # of 8 cores
        monkeypatch.setenv("OMP_NUM_THREADS", given)
        assert of_ranks.threads_of_share(share) == 2
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert of_ranks.threads_of_share("1/4") is None


def test_who_sets_threads_has_them(tmp_path):
    measured(tmp_path, settings=("threads=3",))
    assert all("--share" not in job.argv for job in jobs)


def test_settings_tell_apart_what_is_no_same_measurement(tmp_path):
    plain = measured(tmp_path)
    assert (plain.kind, plain.unit, plain.scaling) == ("resnet50", "images/s", "weak")
    assert plain.settings["framework"] == "torch"
    assert plain.settings["data"] == "synthetic"
    other = measured(tmp_path, "--batch", "128", settings=("environment=lab",)).settings
    assert (other["batch"], other["--set environment"]) == ("128", "lab")


def test_settings_hold_no_secret(tmp_path):
    said = measured(tmp_path, settings=("environment_variables.HF_TOKEN=hf_abcdefghijklmnopqrstuvwx",)).settings
    assert "abcdefghij" not in str(said)
    assert "--set environment_variables.HF_TOKEN" in said


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ((), "on for convolutions, on GPUs that have it"),
        (("--framework", "tensorflow"), "on, on GPUs that have it"),
        (("--precision", "bf16"), None),
    ],
)
def test_settings_say_whether_32_bits_are_those_of_tf32(tmp_path, said, words):
    assert measured(tmp_path, *said).settings.get("tf32") == words
