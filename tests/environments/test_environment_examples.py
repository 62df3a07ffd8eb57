"""examples/environments: the guide's recipe as it stands, with small stand-ins for what it downloads."""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
import tarfile
from pathlib import Path

import pytest
from driver import Cli
from native_sources import NATIVE, PROJECT, SETUP
from wheels import Links

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "environments"
NEEDED = ("torch==2.13.0", "numpy", "wheel", "cffi", "cloudpickle", "psutil", "pyyaml", "packaging", "cmake", "ninja")

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None or shutil.which("mpicc") is None, reason="no gcc and mpicc to compile with"
)


def test_the_recipe_and_its_job_are_read(cli: Cli) -> None:
    found = cli.json("env", "show", str(EXAMPLES / "horovod.yml"))
    assert Path(found["prefix"]).name.startswith("mynewenv-") and not found["ready"]
    assert "mynewenv-" in cli.ok("run", str(EXAMPLES / "allreduce.yml"), "--dry-run").out


def test_the_recipe_is_built(cli: Cli, channel: Path, links: Links, tmp_path: Path, with_setuptools: Links) -> None:
    """All that stands in it is done: conda, pip, the download, the change of its sources, the compiling with MPI. On
    CPUs; what needs a GPU is left out, and said."""
    for wanted in NEEDED:
        name, _, version = wanted.partition("==")
        links.wheel(name, version or "1.0", {"stands_for_%s.py" % name: ""})
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "conda-forge").symlink_to(channel)
    cli.write("worldsize.toml", '[conda]\nchannel_alias = "file://%s/mirror"\n' % tmp_path)
    cli.write("horovod.yml", _adapted((EXAMPLES / "horovod.yml").read_text(), _horovod(tmp_path), links))
    cli.environ.update(COUNT=str(tmp_path / "compiled"), HOROVOD_NCCL_HOME=str(_nccl(tmp_path)))
    prefix = Path(cli.ok("env", "build", "horovod.yml").out.strip())
    for place in ("CMakeLists.txt", "horovod/torch/CMakeLists.txt"):
        assert "CMAKE_CXX_STANDARD 17" in (prefix / "opt" / "horovod-0.28.1" / place).read_text()
    steps = {step["name"]: step for step in cli.json("env", "show", prefix.name)["steps"]}
    cpu = steps["Horovod without GPUs"]
    assert cpu["compiled"] and "HOROVOD_WITH_MPI" in cpu["variables"] and cpu["installed"] == ["horovod 0.28.1"]
    assert steps["Horovod with NCCL"]["left_out"].startswith("cuda")
    cli.write("job.yml", "command: python -c 'import horovod; print(*horovod.about())'\nenvironment: horovod.yml\n")
    assert cli.ok("run", "job.yml").out == "0:0: 2 3 none mpi\n"


def test_the_recipe_without_a_gpu_is_read(cli: Cli) -> None:
    found = cli.json("env", "show", str(EXAMPLES / "horovod-nccl.yml"))
    assert Path(found["prefix"]).name.startswith("horovod-nccl-") and not found["ready"]


@pytest.mark.exhaustive
def test_the_recipe_without_a_gpu_is_built(cli: Cli, links: Links, tmp_path: Path, with_setuptools: Links) -> None:
    """NCCL, nvcc and CUDA's runtime come as wheels, Horovod is compiled with them, and linkers find the libraries."""
    for wanted in (*NEEDED, "cuda-toolkit==13.0.3"):
        name, _, version = wanted.partition("==")
        links.wheel(name, version or "1.0", {"stands_for_%s.py" % name: ""})
    header = "#define NCCL_MAJOR 2\n#define NCCL_MINOR 29\n#define NCCL_PATCH 7\n"
    nccl = {"nvidia/nccl/include/nccl.h": header, "nvidia/nccl/lib/libnccl.so.2": "a library"}
    links.wheel("nvidia-nccl-cu13", "2.29.7", {**nccl, "nvidia/cu13/lib/libcudart.so.13": "a library"})
    text = _adapted((EXAMPLES / "horovod-nccl.yml").read_text(), _horovod(tmp_path), links)
    text = text.replace("3.11", "%d.%d" % sys.version_info[:2]).replace("[nvcc,crt,cccl]", "")
    cli.write(
        "horovod-nccl.yml", text.replace("pip:\n", "pip:\n" + "".join("- %s\n" % line for line in links.lines), 1)
    )
    cli.environ.update(COUNT=str(tmp_path / "compiled"))
    prefix = Path(cli.ok("env", "build", "horovod-nccl.yml").out.strip())
    (nvidia,) = prefix.glob("lib/python3.*/site-packages/nvidia")
    for name in ("nccl/lib/libnccl.so", "cu13/lib/libcudart.so", "cu13/lib64/libcudart.so.13"):
        assert (nvidia / name).read_text() == "a library"
    step = cli.json("env", "show", prefix.name)["steps"][-1]
    assert step["compiled"] and step["tools"]["nccl"] == "2.29.7" and step["installed"] == ["horovod 0.28.1"]
    cli.write(
        "job.yml", "command: python -c 'import horovod; print(*horovod.about())'\nenvironment: horovod-nccl.yml\n"
    )
    assert cli.ok("run", "job.yml").out == "0:0: 2 29 NCCL mpi\n"


def _adapted(text: str, archive: Path, links: Links) -> str:
    """The recipe with this Python's version, and another address for what it downloads on CPUs."""
    checksum = hashlib.sha256(archive.read_bytes()).hexdigest()
    text = text.replace("python=3.11", "python=%d.%d" % sys.version_info[:2])
    text = re.sub(r"url: \S*horovod\S*\n  sha256: \w+", "url: %s\n  sha256: '%s'" % (archive, checksum), text)
    text = text.replace("setuptools<80", "setuptools").replace("when: cuda", "when: cuda>=999")
    text = text.replace("when: no cuda", "when: no cuda>=999")
    return text.replace("- pip:\n", "- pip:\n" + "".join("  - %s\n" % line for line in links.lines))


def _horovod(directory: Path) -> Path:
    root = directory / "horovod-0.28.1"
    for name, content in {
        "setup.py": SETUP % "0.28.1",
        "native.c": NATIVE,
        "pyproject.toml": PROJECT,
        "horovod/__init__.py": "from horovod._native import about\n",
        "CMakeLists.txt": "set(CMAKE_CXX_STANDARD 14)\n",
        "horovod/torch/CMakeLists.txt": "set(CMAKE_CXX_STANDARD 14)\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    path = directory / "downloads" / "horovod-0.28.1.tar.gz"
    path.parent.mkdir()
    with tarfile.open(path, "w:gz") as archive:
        archive.add(root, root.name)
    return path


def _nccl(directory: Path) -> Path:
    header = "#define NCCL_MAJOR 2\n#define NCCL_MINOR 3\n#define NCCL_PATCH 7\n"
    (directory / "nccl" / "include").mkdir(parents=True)
    (directory / "nccl" / "include" / "nccl.h").write_text(header)
    return directory / "nccl"
