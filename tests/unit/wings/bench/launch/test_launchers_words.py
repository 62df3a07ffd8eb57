"""Where launchers are found, which versions they have, and the words that start ranks with each."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from worldsize.version import VERSION
from worldsize.wings.bench.launch import launchers
from worldsize.wings.bench.launch.launchers import (
    LAUNCHERS,
    FoundLauncher,
    Launcher,
    Start,
    Surroundings,
    find_launcher,
    package_version,
    said_version,
)
from worldsize.wings.bench.worlds import World

BY_NAME = {each.name: each for each in LAUNCHERS}
RANK = "/wing/ranks/probe.py first 4 /scratch"
SINGLE = "--num_machines 1 --mixed_precision no --dynamo_backend no"
PROGRAM = ("/env/bin/python", "/wing/ranks/probe.py", "first", "4", "/scratch")


def words(name: str, version: str = "1.0", compute: str | None = None, settings: tuple[str, ...] = ()) -> list[str]:
    launcher = BY_NAME[name]
    found = FoundLauncher(launcher, "/bin/" + name, version)
    return launcher.command(found, Start(PROGRAM, World(2, 2), compute, settings))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("torchrun", f"/bin/torchrun --standalone --nproc-per-node=4 {RANK}"),
        ("accelerate", f"/bin/accelerate launch --multi_gpu {SINGLE} --num_processes 4 {RANK}"),
        ("deepspeed", f"/bin/deepspeed --num_gpus 4 --no_local_rank {RANK}"),
        ("horovodrun", f"/bin/horovodrun --gloo -np 4 /env/bin/python {RANK}"),
        ("srun", f"/bin/srun --nodes=2 --ntasks=4 --unbuffered --kill-on-bad-exit=1 /env/bin/python {RANK}"),
    ],
)
def test_each_launcher_starts_all_ranks_by_one_command(name: str, said: str) -> None:
    assert " ".join(words(name)) == said


def test_worldsize_runs_the_code_of_the_ranks_where_it_is_told_to() -> None:
    said = " ".join(words("worldsize", compute="lab", settings=("queue=long",)))
    assert " -m worldsize run -w 2x2 " in said
    assert "--compute lab --set queue=long --code /wing/ranks -- /env/bin/python probe.py first 4 /scratch" in said
    assert "--compute" not in words("worldsize") and "--set" not in words("worldsize")


@pytest.mark.parametrize(
    ("version", "user", "options"),
    [
        ("Open MPI 4.1.4", 1000, "--oversubscribe"),
        ("Open MPI 5.0.11", 0, "--oversubscribe --allow-run-as-root"),
        ("MPICH 4.0.2", 0, ""),
        ("Intel MPI 2021.10", 0, ""),
        ("", 0, ""),
    ],
)
def test_open_mpi_alone_needs_leave_for_root_and_for_more_ranks_than_cores(
    monkeypatch: pytest.MonkeyPatch, version: str, user: int, options: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    said = words("mpirun", version)
    assert said == ["/bin/mpirun", *options.split(), "-n", "4", *PROGRAM]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n", "Open MPI 4.1.4"),
        ("mpirun (Open MPI) 5.0.0rc12\n", "Open MPI 5.0.0rc12"),
        ("HYDRA build details:\n    Version:                                 4.0.2\n", "MPICH 4.0.2"),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.10 Build 20230619\n", "Intel MPI 2021.10"),
        ("slurm 22.05.8\n", "22.05.8"),
        ("slurm-wlm 23.11.4\n", "23.11.4"),
        ("", ""),
        ("usage: mpirun\n", ""),
    ],
)
def test_a_version_names_the_kind_of_mpi(text: str, version: str) -> None:
    assert said_version(text) == version


def test_the_version_of_a_package_is_that_beside_the_program(tmp_path: Path) -> None:
    packages = tmp_path / "lib" / "python3.12" / "site-packages"
    for name in ("torch-2.9.1+cu128.dist-info", "torchvision-0.24.dist-info", "torch"):
        (packages / name).mkdir(parents=True)
    assert package_version("torch", str(tmp_path / "bin" / "torchrun")) == "2.9.1+cu128"
    assert package_version("horovod", str(tmp_path / "bin" / "horovodrun")) == ""
    assert package_version("torch", "/nowhere/bin/torchrun") == ""


def program(folder: Path, name: str) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/false\n")
    path.chmod(0o755)
    return str(path)


def test_what_stands_first_on_the_path_is_found(tmp_path: Path) -> None:
    first, second = program(tmp_path / "a", "torchrun"), program(tmp_path / "b", "torchrun")
    around = Surroundings(os.pathsep.join(map(os.path.dirname, (first, second))))
    assert find_launcher(BY_NAME["torchrun"], around) == FoundLauncher(BY_NAME["torchrun"], first, "")
    found = find_launcher(BY_NAME["worldsize"], Surroundings(""))
    assert isinstance(found, FoundLauncher) and found.version == VERSION


@pytest.mark.parametrize(
    ("name", "around", "why"),
    [
        ("torchrun", {}, "it is neither next to the ranks' Python nor on the PATH"),
        ("torchrun", {"local": False}, "it starts ranks on this machine alone"),
        ("mpirun", {"local": False, "slurm": True}, "it starts ranks on this machine alone"),
        ("srun", {}, "there is neither a compute of Slurm nor an allocation"),
        ("srun", {"slurm": True, "local": False}, "it is neither next to the ranks' Python nor on the PATH"),
        ("accelerate", {}, "it starts several ranks only on GPUs, and this machine has none"),
        ("accelerate", {"gpus": True}, "it is neither next to the ranks' Python nor on the PATH"),
    ],
)
def test_a_launcher_of_no_use_says_why(tmp_path: Path, name: str, around: dict[str, bool], why: str) -> None:
    assert find_launcher(BY_NAME[name], Surroundings(str(tmp_path), **around)) == why


def test_deepspeed_is_told_that_there_are_no_gpus(tmp_path: Path) -> None:
    path = os.path.dirname(program(tmp_path / "bin", "deepspeed"))

    def variables(gpus: bool) -> dict[str, str]:
        found = find_launcher(BY_NAME["deepspeed"], Surroundings(path, gpus=gpus))
        assert isinstance(found, FoundLauncher)
        return dict(found.launcher.variables)

    assert variables(gpus=False) == {"DS_ACCELERATOR": "cpu"}
    assert variables(gpus=True) == {}


def test_a_launcher_is_asked_for_its_version_and_may_be_broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = os.path.dirname(program(tmp_path / "bin", "mpirun"))
    said = {"": "mpirun (Open MPI) 4.1.6"}
    monkeypatch.setattr(launchers, "_output", lambda words: said[""])
    found = find_launcher(BY_NAME["mpirun"], Surroundings(path))
    assert isinstance(found, FoundLauncher) and found.version == "Open MPI 4.1.6"
    said[""] = ""
    found = find_launcher(BY_NAME["mpirun"], Surroundings(path))
    assert isinstance(found, FoundLauncher) and found.version == ""


def test_a_run_on_a_cluster_is_cancelled_by_ctrl_c_alone() -> None:
    """TERM would leave it running."""
    ended_by: dict[str, int] = {each.name: each.ended_by for each in LAUNCHERS if isinstance(each, Launcher)}
    assert ended_by.pop("worldsize") == signal.SIGINT
    assert set(ended_by.values()) == {signal.SIGTERM}
