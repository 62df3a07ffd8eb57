"""Versions of Python and packages by files alone, of environments as venv, uv, conda and Debian make them."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded_node import node

from worldsize.agent.launchers.package_versions import conda_versions, distribution_versions
from worldsize.agent.launchers.python_files import find_python, package_directories, read_python
from worldsize.wings.checks.agent.probes.packages import probe


def program(path: Path, text: str = "\x7fELF") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def packages(directory: Path, *names: str) -> None:
    for name in names:
        (directory / name).mkdir(parents=True)


def venv(prefix: Path, settings: str) -> Path:
    """A virtual environment's prefix, as venv makes it for Python 3.11; its Python."""
    base = program(prefix.parent / "base" / "bin" / "python3.11")
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "python").symlink_to(base)
    (prefix / "pyvenv.cfg").write_text("home = %s\n%s" % (base.parent, settings))
    return prefix / "bin" / "python"


@pytest.mark.parametrize(
    "settings", ["version = 3.11.7\ninclude-system-site-packages = false\n", "version_info = 3.11.7\nuv = 0.8\n"]
)
def test_virtual_environment(tmp_path: Path, settings: str) -> None:
    python = venv(tmp_path / "env", settings)
    within = Path("lib", "python3.11", "site-packages")
    packages(tmp_path / "env" / within, "torch-2.7.1+cu126.dist-info", "nvidia_nccl_cu12-2.26.2.dist-info", "torch")
    packages(tmp_path / "base" / within, "numpy-1.24.0.dist-info")
    facts = probe(node(tmp_path, {"python": str(python)})).facts
    found = {"nvidia-nccl-cu12": "2.26.2", "torch": "2.7.1+cu126"}
    assert facts == {"python": "3.11.7", "python_minor": "3.11", "packages": found}


def test_virtual_environment_that_takes_packages_of_its_base(tmp_path: Path) -> None:
    python = venv(tmp_path / "env", "version = 3.11.7\ninclude-system-site-packages = true\n")
    within = Path("lib", "python3.11", "site-packages")
    packages(tmp_path / "env" / within, "numpy-2.0.0.dist-info")
    packages(tmp_path / "base" / within, "numpy-1.24.0.dist-info", "mpi4py-3.1.4-py3.11.egg-info")
    facts = probe(node(tmp_path, {"python": "python"}, {"PATH": str(python.parent)})).facts
    assert facts["packages"] == {"numpy": "2.0.0", "mpi4py": "3.1.4"}


def test_conda_environment(tmp_path: Path) -> None:
    prefix = tmp_path / "conda"
    program(prefix / "bin" / "python3.10")
    (prefix / "bin" / "python").symlink_to("python3.10")
    (prefix / "conda-meta").mkdir()
    for name in ("python-3.10.14-hd12c33a_0_cpython.json", "nccl-2.21.5.1-h3a97aeb_0.json", "history"):
        (prefix / "conda-meta" / name).write_text("{}")
    packages(prefix / "lib" / "python3.10" / "site-packages", "jax-0.4.30.dist-info")
    facts = probe(node(tmp_path, {"python": str(prefix / "bin" / "python")})).facts
    assert facts == {
        "python": "3.10.14",
        "python_minor": "3.10",
        "packages": {"jax": "0.4.30", "nccl": "2.21.5.1"},
    }


def test_python_path_comes_before_the_environment(tmp_path: Path) -> None:
    python = venv(tmp_path / "env", "version = 3.11.7\n")
    packages(tmp_path / "env" / "lib" / "python3.11" / "site-packages", "torch-2.7.1.dist-info")
    packages(tmp_path / "own", "torch-2.8.0.dist-info")
    environ = {"PYTHONPATH": "relative:%s" % (tmp_path / "own")}
    assert probe(node(tmp_path, {"python": str(python)}, environ)).facts["packages"] == {"torch": "2.8.0"}


def test_python_of_the_distribution(tmp_path: Path) -> None:
    python = read_python("/usr/bin/python3.99")._replace(prefix="/usr", minor="3.11")
    found = package_directories(python, {"HOME": "/home/me"})
    assert found[:3] == [
        "/home/me/.local/lib/python3.11/site-packages",
        "/usr/local/lib/python3.11/dist-packages",
        "/usr/lib/python3.11/site-packages",
    ]
    assert found[-1] == "/usr/lib/python3/dist-packages"
    assert package_directories(python, {"PYTHONNOUSERSITE": "1"})[0] == "/usr/local/lib/python3.11/dist-packages"


def test_header_tells_the_full_version(tmp_path: Path) -> None:
    python = program(tmp_path / "opt" / "bin" / "python3.12")
    header = tmp_path / "opt" / "include" / "python3.12" / "patchlevel.h"
    header.parent.mkdir(parents=True)
    header.write_text('#define PY_VERSION              "3.12.4"\n')
    assert read_python(str(python)).version == "3.12.4"


def test_two_libraries_without_a_name_that_decides_are_not_known(tmp_path: Path) -> None:
    python = program(tmp_path / "opt" / "bin" / "python")
    packages(tmp_path / "opt" / "lib", "python3.11", "python3.12")
    assert probe(node(tmp_path, {"python": str(python)})).facts == {}


@pytest.mark.parametrize(
    "text, found",
    [
        ("#!{python}\nimport sys", True),
        ("#!/usr/bin/env python3.11\nimport sys", True),
        ("#!/usr/bin/env -S LANG=C python3.11 -u\n", True),
        ("#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n", True),
        ("#!/bin/sh\n'''exec' {python} \"$0\" \"$@\"\n' '''\n", True),
        ("#!/bin/sh\nexec python\n", False),
        ("#!/usr/bin/env bash\n", False),
        ("#!\n", False),
        ("\x7fELF\0\0", False),
        ("", False),
    ],
)
def test_script_names_its_python(tmp_path: Path, text: str, found: bool) -> None:
    python = program(tmp_path / "bin" / "python3.11")
    program(tmp_path / "bin" / "torchrun", text.format(python=python))
    path = find_python("torchrun", {"PATH": str(tmp_path / "bin")})
    assert path == (str(python) if found else None)


def test_shims_are_no_python(tmp_path: Path) -> None:
    program(tmp_path / "shims" / "python", "#!/usr/bin/env bash\nexec pyenv\n")
    assert find_python("python", {"PATH": str(tmp_path / "shims")}) is None


@pytest.mark.parametrize("asked", [{}, {"python": ""}, {"python": 3}, {"python": "nowhere"}, {"python": "/a/b"}])
def test_python_that_is_not_known_or_not_there(tmp_path: Path, asked: dict[str, object]) -> None:
    assert probe(node(tmp_path, asked, {"PATH": str(tmp_path)})).facts == {}


def test_names_of_distributions() -> None:
    names = [
        "Torch-2.1.0.dist-info", "numpy-1.24.2.egg-info", "mpi4py-3.1.4-py3.11-linux-x86_64.egg-info",
        "jaxlib-0.4.dist-info", "jaxlib-0.5.dist-info", "pytorch_lightning-2.1.dist-info", "requests-2.0.dist-info",
        "~orch-1.0.dist-info", "torch.dist-info", "-1.dist-info", "torch-.dist-info", "\udcff-1.dist-info",
    ]  # fmt: skip
    found = {"torch": "2.1.0", "numpy": "1.24.2", "mpi4py": "3.1.4", "pytorch-lightning": "2.1"}
    assert distribution_versions(names) == found


def test_records_of_conda_that_are_not_there(tmp_path: Path) -> None:
    assert conda_versions(str(tmp_path)) == {}


@pytest.mark.parametrize("junk", [b"", b"\xff\0" * 5000, b"home\nversion = \nhome = relative\n", b"version = 9"])
def test_damaged_settings(tmp_path: Path, junk: bytes) -> None:
    python = venv(tmp_path / "env", "")
    (tmp_path / "env" / "pyvenv.cfg").write_bytes(junk)
    assert probe(node(tmp_path, {"python": str(python)})).facts == {"python_minor": "3.11"}
