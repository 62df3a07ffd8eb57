"""What a report says of its surroundings, and what is known to be secret there."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from worldsize.errors import SubmitAgain
from worldsize.jobspec.config.config import ComputeSettings
from worldsize.wings.selftest import facts

MOUNTS = r"""21 1 8:1 / / rw - ext4 /dev/sda1 rw
30 21 0:50 / /data rw,relatime shared:1 - nfs4 server:/data rw
31 30 0:51 / /data/my\040runs rw - lustre 10.0.0.1@tcp:/fs rw
broken line
"""


def compute(*nodes: str, capabilities: frozenset[str] = frozenset(["nodes"]), usable: bool = True) -> Any:
    rows = [SimpleNamespace(name=name, usable=usable) for name in nodes]
    return SimpleNamespace(capabilities=capabilities, nodes=lambda: rows)


def silent() -> Any:
    def nodes() -> Any:
        raise SubmitAgain("no answer")

    return SimpleNamespace(capabilities=frozenset(["nodes"]), nodes=nodes)


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/home/x", "ext4"), ("/data/x", "nfs4"), ("/data", "nfs4"), ("/database", "ext4"), ("/data/my runs/a", "lustre")],
)
def test_the_kind_of_file_system(path: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text(MOUNTS)
    assert facts.file_system(path, str(tmp_path / "mountinfo")) == kind


@pytest.mark.parametrize("content", ["", "\n\n", " - \n", "a b c d /x - \n", "\0\xff"])
def test_mounts_that_make_no_sense(content: str, tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text(content)
    assert facts.file_system("/x/y", str(tmp_path / "mountinfo")) == ""
    assert facts.file_system("/x", str(tmp_path / "none")) == ""


@pytest.mark.parametrize(
    ("release", "numbers"),
    [
        ("5.15.0-1042-azure", "5.15.0-1042"),
        ("4.18.0-553.el8_10.x86_64", "4.18.0-553"),
        ("6.8.0-acme-lab3", "6.8.0"),
        ("strange", ""),
    ],
)
def test_a_kernel_by_its_numbers(release: str, numbers: str) -> None:
    assert facts.kernel(release) == numbers


def test_versions_without_anything_there() -> None:
    asked: list[tuple[str, ...]] = []
    found = facts.versions(ComputeSettings("lab", "slurm"), "/", lambda words: asked.append(words) or "")  # type: ignore[func-returns-value]
    assert found["scheduler"] == found["mpi"] == "" and found["worldsize"] and found["python"]
    assert asked == [("sinfo", "--version"), ("mpirun", "--version")]


def test_the_first_line_of_a_program() -> None:
    assert facts.first_line(("sh", "-c", "echo one; echo two")) == "one"
    assert facts.first_line(("sh", "-c", "echo one; exit 1")) == facts.first_line(("no-such-program",)) == ""


def test_how_many_nodes_a_run_may_have() -> None:
    assert facts.usable_nodes(compute("a", "b")) == 2
    assert facts.usable_nodes(compute("a", usable=False)) is facts.usable_nodes(silent()) is None
    assert facts.usable_nodes(compute(capabilities=frozenset())) is None
    assert facts.usable_nodes(compute("a", capabilities=frozenset(["nodes", "local"]))) is None


def test_what_is_secret() -> None:
    options = {
        "url": "https://head.hpc.example.org:8443/x",
        "user": "CORP\\jdoe",
        "account": "proj4711",
        "share": {"head": "\\\\WINHEAD\\app", "node": "/app"},
    }
    environ = {"USER": "jane", "HOME": "/data/homes/jane"}
    settings = ComputeSettings("lab", "hpcpack", options=options)
    known = facts.known_secrets(settings, compute("gpu-1.cluster"), "/scratch/selftest-x", environ)
    assert {"jane", "jdoe", "CORP\\jdoe"} <= set(known.users) and "" not in known.users
    assert {"head.hpc.example.org", "head", "WINHEAD", "gpu-1", "gpu-1.cluster"} <= {*known.hosts, "WINHEAD"}
    assert "winhead" in {host.lower() for host in known.hosts} and "localhost" not in known.hosts
    assert known.accounts == ("proj4711",) and "/data/homes/jane" in known.home
    assert known.runs[0] == "/scratch/selftest-x" and os.path.isabs(known.runs[1])
