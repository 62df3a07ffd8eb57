"""The software that a node's ranks find installed, from names and contents of files. None of it is imported or
executed.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from worldsize.agent.launchers.package_versions import installed_versions
from worldsize.agent.launchers.python_files import PythonFiles, find_python, package_directories, read_python
from worldsize.agent.machine.node_files import text_of
from worldsize.state.node_facts import Rows
from worldsize.wings.facts.agent.command_words import program_words

_FRAMEWORKS = ("torch", "tensorflow", "tensorflow-cpu", "jax", "horovod", "deepspeed", "mpi4py")
_CONTAINERS = frozenset(("apptainer", "singularity", "enroot", "docker", "podman", "podman-hpc", "shifter"))
_LONGEST = 120


def software_rows(argv: Sequence[str], directory: str, environ: Mapping[str, str], root: str = "/") -> Rows:
    """Return the rows "system", "framework", "CUDA", "NCCL", "cuDNN" and "Python" of a node's software facts, for ranks
    that are started with the command `argv` and the variables `environ` in `directory`. Unknown values are left out."""
    system = system_text(root)
    python = rank_python(argv, directory, environ)
    rows = [("system", system), *(python_rows(python, environ) if python else ())]
    return tuple((name, text) for name, text in rows if text)


def driver_row(root: str = "/") -> Rows:
    """Return the row "driver" of a node's software facts: the version of the GPU driver. Empty without a GPU driver.
    The driver itself provides the value, and may hang."""
    nvidia = re.search(
        r"NVRM version:.*?\s(\d+\.\d+[.\d]*)\s", text_of(os.path.join(root, "proc/driver/nvidia/version"), 4096) + " "
    )
    if nvidia:
        return (("driver", f"NVIDIA {nvidia[1]}"),)
    amd = text_of(os.path.join(root, "sys/module/amdgpu/version"), 256)
    return (("driver", f"amdgpu {amd[:_LONGEST]}"),) if amd else ()


def runs_in_image(argv: Sequence[str]) -> bool:
    """Return whether the ranks' command `argv` begins with one of the programs that worldsize and users start
    containers with, such as apptainer or docker."""
    return bool(argv) and os.path.basename(argv[0]) in _CONTAINERS


def rank_python(argv: Sequence[str], directory: str, environ: Mapping[str, str]) -> PythonFiles | None:
    """Return the Python that ranks with the command `argv` most likely use. It is the Python that the command names, or
    the one that its program is a script of, else the first on PATH. None if there is none."""
    for word in (*program_words(argv), "python", "python3"):
        try:
            program = find_python(word, environ, directory)
        except (OSError, ValueError):  # no such program, or no possible path
            continue
        if program:
            return read_python(program)
    return None


def python_rows(python: PythonFiles, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    versions = installed_versions(python, environ) if python.minor else {}
    return [*package_rows(versions, _torch_cuda(python, environ)), ("Python", python.version or python.minor)]


def package_rows(versions: Mapping[str, str], cuda: str = "") -> list[tuple[str, str]]:
    """Return the rows "framework", "CUDA", "NCCL" and "cuDNN" of a node's software facts. `versions` maps the names of
    installed packages, in the form of an index, to versions. `cuda` is the CUDA version that torch was built for."""
    found = [f"{name} {versions[name]}" for name in _FRAMEWORKS if name in versions]
    return [
        ("framework", ", ".join(found)),
        ("CUDA", cuda or _version_of(versions, "nvidia-cuda-runtime", "cuda-version", "cudatoolkit")),
        ("NCCL", _version_of(versions, "nvidia-nccl", "nccl")),
        ("cuDNN", _version_of(versions, "nvidia-cudnn", "cudnn")),
    ]


def _version_of(versions: Mapping[str, str], *names: str) -> str:
    """Return the version of the first package of `names` that is installed, for any CUDA version: nvidia-nccl-cu12 for
    nvidia-nccl. "" if there is none."""
    for name in names:
        for each, version in versions.items():
            if re.fullmatch(rf"{name}(?:-cu\d+)?", each):
                return version[:_LONGEST]
    return ""


def _torch_cuda(python: PythonFiles, environ: Mapping[str, str]) -> str:
    """Return the CUDA version that torch was built for, from `torch/version.py`: `cuda: Optional[str] = '12.6'`. "" if
    unknown."""
    for directory in package_directories(python, environ):
        text = text_of(os.path.join(directory, "torch", "version.py"), 1 << 14)
        if text:
            found = re.search(r"(?m)^cuda\b[^=\n]*=\s*['\"](\d[\d.]{0,20})['\"]", text)
            return found[1] if found else ""
    return ""


def system_text(root: str = "/") -> str:
    """Return the name of the operating system, such as "Debian GNU/Linux 12 (bookworm)", from os-release(5). "" if
    unknown."""
    for path in ("etc/os-release", "usr/lib/os-release"):
        found = re.search(r"(?m)^PRETTY_NAME=(['\"]?)(.*)\1$", text_of(os.path.join(root, path), 1 << 14))
        if found:
            return found[2][:_LONGEST]
    return ""
