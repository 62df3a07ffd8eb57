"""What ranks find installed, by the files of environments as venv and conda make them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from driver import wait_for
from recorded_machines import NVIDIA_OPEN_VERSION, NVIDIA_VERSION, put

from worldsize.wings.facts.agent import programs
from worldsize.wings.facts.agent.programs import mpi_text, program_rows
from worldsize.wings.facts.agent.software import (
    driver_row,
    package_rows,
    rank_python,
    runs_in_image,
    software_rows,
    system_text,
)

DISTRIBUTIONS = (
    "torch-2.7.1+cu126", "horovod-0.28.1", "mpi4py-4.0.3", "nvidia_nccl_cu12-2.26.2", "nvidia_cudnn_cu12-9.5.1.17",
    "nvidia_cuda_runtime_cu12-12.6.77", "requests-2.31.0",
)  # fmt: skip


def program(path: Path, text: str = "\x7fELF") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def venv(prefix: Path, *distributions: str) -> Path:
    """A virtual environment with these packages; its Python."""
    base = program(prefix.parent / "base" / "bin" / "python3.11")
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "python").symlink_to(base)
    put(prefix, {"pyvenv.cfg": "home = %s\nversion = 3.11.7\n" % base.parent})
    for name in distributions:
        (prefix / "lib/python3.11/site-packages" / (name + ".dist-info")).mkdir(parents=True)
    return prefix / "bin" / "python"


def test_a_virtual_environment(tmp_path: Path) -> None:
    python = venv(tmp_path / "env", *DISTRIBUTIONS)
    put(tmp_path, {"etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n'})
    rows = software_rows(("python", "train.py"), "/", {"PATH": str(python.parent)}, str(tmp_path))
    assert rows == (
        ("system", "Debian GNU/Linux 12 (bookworm)"),
        ("framework", "torch 2.7.1+cu126, horovod 0.28.1, mpi4py 4.0.3"),
        ("CUDA", "12.6.77"),
        ("NCCL", "2.26.2"),
        ("cuDNN", "9.5.1.17"),
        ("Python", "3.11.7"),
    )


@pytest.mark.parametrize(
    ("text", "cuda"),
    [
        ("__version__ = '2.7.1'\ncuda: Optional[str] = '12.6'\nhip: Optional[str] = None\n", "12.6"),
        ('cuda = "11.8"\n', "11.8"),
        ("cuda: Optional[str] = None\n", None),
        ("cuda = __import__('os').system('id')\n", None),
        ("\0" * 100_000, None),
    ],
)
def test_the_cuda_that_torch_was_built_for(tmp_path: Path, text: str, cuda: str | None) -> None:
    python = venv(tmp_path / "env", "torch-2.7.1")
    put(tmp_path / "env/lib/python3.11/site-packages", {"torch/version.py": text})
    found = dict(software_rows(("python",), "/", {"PATH": str(python.parent)}, str(tmp_path)))
    assert found.get("CUDA") == cuda


@pytest.mark.parametrize(
    ("versions", "found"),
    [
        ({"nvidia-nccl-cu13": "2.28", "nvidia-cudnn-cu11": "8.9"}, {"NCCL": "2.28", "cuDNN": "8.9"}),
        ({"nvidia-cuda-runtime": "13.0.48"}, {"CUDA": "13.0.48"}),
        ({"cuda-version": "12.4", "nccl": "2.21", "cudnn": "9.1"}, {"CUDA": "12.4", "NCCL": "2.21", "cuDNN": "9.1"}),
        ({"tensorflow-cpu": "2.16.1", "jax": "0.4"}, {"framework": "tensorflow-cpu 2.16.1, jax 0.4"}),
        ({}, {}),
    ],
)  # fmt: skip
def test_packages_of_several_cudas(versions: dict[str, str], found: dict[str, str]) -> None:
    assert {name: text for name, text in package_rows(versions) if text} == found


@pytest.mark.parametrize(
    "words",
    [
        ("{}/env/bin/python", "train.py"),
        ("bash", "-c", "cd src && '{}/env/bin/python' train.py"),
        ("{}/env/bin/torchrun", "train.py"),
        ("mpirun", "{}/env/bin/python", "train.py"),
    ],
)
def test_the_python_that_the_command_names(tmp_path: Path, words: tuple[str, ...]) -> None:
    python = venv(tmp_path / "env")
    other = venv(tmp_path / "other" / "env")
    program(tmp_path / "env/bin/torchrun", "#!%s\n" % python)
    found = rank_python([word.format(tmp_path) for word in words], "/", {"PATH": str(other.parent)})
    assert found is not None
    assert found.program == str(python)


@pytest.mark.parametrize("words", [("./train",), ("bash", "-c", "train"), (), ("\0",), ("gone/python",)])
def test_else_the_first_on_path(tmp_path: Path, words: tuple[str, ...]) -> None:
    python = venv(tmp_path / "env")
    found = rank_python(words, str(tmp_path), {"PATH": "%s:/nowhere" % python.parent})
    assert found is not None
    assert found.program == str(python)
    assert rank_python(words, str(tmp_path), {"PATH": str(tmp_path)}) is None


@pytest.mark.parametrize(
    ("text", "version"),
    [(NVIDIA_VERSION, "NVIDIA 535.104.05"), (NVIDIA_OPEN_VERSION, "NVIDIA 555.42.02"), ("NVRM version: ?\n", None)],
)
def test_the_driver(tmp_path: Path, text: str, version: str | None) -> None:
    put(tmp_path, {"proc/driver/nvidia/version": text})
    assert driver_row(str(tmp_path)) == ((("driver", version),) if version else ())


def test_amds_driver(tmp_path: Path) -> None:
    assert driver_row(str(tmp_path)) == ()
    put(tmp_path, {"sys/module/amdgpu/version": "6.7.0\n"})
    assert driver_row(str(tmp_path)) == (("driver", "amdgpu 6.7.0"),)


def test_a_system_without_a_name(tmp_path: Path) -> None:
    put(tmp_path, {"usr/lib/os-release": "ID=x\n"})
    assert system_text(str(tmp_path)) == ""


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("mpirun (Open MPI) 4.1.4\n\nReport bugs to …\n", "Open MPI 4.1.4"),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.10 Build 20230619 (id: c2e19c2f3e)\n", "Intel MPI 2021.10"),
        ("HYDRA build details:\n    Version:                                 4.0.2\n", "MPICH (Hydra) 4.0.2"),
        ("what?\n", ""),
    ],
)
def test_words_of_mpirun(said: str, text: str) -> None:
    assert mpi_text(said) == text


def test_programs_that_are_asked(tmp_path: Path) -> None:
    program(tmp_path / "bin/mpirun", "#!/bin/sh\necho 'mpirun (Open MPI) 5.0.7'\n")
    program(tmp_path / "bin/gcc", "#!/bin/sh\necho 13.2.0\n")
    assert program_rows({"PATH": str(tmp_path / "bin")}) == (("MPI", "Open MPI 5.0.7"), ("compiler", "gcc 13.2.0"))


def test_programs_that_fail_or_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert program_rows({"PATH": str(tmp_path)}) == ()
    program(tmp_path / "mpirun", "#!/bin/sh\necho 'mpirun (Open MPI) 5.0.7'; exit 1\n")
    program(tmp_path / "gcc", "#!/nowhere/sh\n")
    assert program_rows({"PATH": str(tmp_path)}) == ()


def test_nothing_of_a_relative_path_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "mpirun", "#!/bin/sh\ntouch %s\n" % (tmp_path / "executed"))
    monkeypatch.chdir(tmp_path)
    assert program_rows({"PATH": ".:" + os.devnull}) == ()
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("text", ["exec /bin/sleep 60", "/bin/sleep 60 & wait", "exec >&-; /bin/sleep 60", "yes"])
def test_a_program_that_hangs_is_ended_with_what_it_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(programs, "_LIMIT", 0.05)
    pid = tmp_path / "pid"
    program(tmp_path / "mpirun", "#!/bin/sh\necho $$ >%s\nPATH=/bin:/usr/bin\n%s\n" % (pid, text))
    assert program_rows({"PATH": str(tmp_path)}) == ()
    group = pid.read_text().strip() if pid.exists() else ""
    living = lambda: [each for each in os.listdir("/proc") if each.isdigit() and _lives_in(each, group)]  # noqa: E731
    assert not group or wait_for(lambda: not living())  # a process that was killed is there for a moment


def _lives_in(pid: str, group: str) -> bool:
    try:
        fields = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[2] == group and fields[0] not in "ZX"


def test_a_program_that_says_no_end_is_not_kept_in_memory(tmp_path: Path) -> None:
    program(tmp_path / "mpirun", "#!/bin/sh\necho 'mpirun (Open MPI) 5.0.7'; exec /usr/bin/yes\n")
    assert program_rows({"PATH": str(tmp_path)}) == ()


@pytest.mark.parametrize(
    ("argv", "found"),
    [(("/opt/bin/apptainer", "exec", "x.sif", "python"), True), (("python", "apptainer"), False), ((), False)],
)
def test_ranks_in_an_image(argv: tuple[str, ...], found: bool) -> None:
    assert runs_in_image(argv) == found
