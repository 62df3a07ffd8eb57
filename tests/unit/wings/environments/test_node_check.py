"""What nodes say is judged: drivers against CUDA, glibc, imports, differences; each with its mend."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from worldsize.state.check_rows import BAD, OK, UNKNOWN, WARNING, CheckRow
from worldsize.wings.environments.inspect import node_check
from worldsize.wings.environments.inspect.node_check import NodeReport, check_argv, parse_node_report
from worldsize.wings.environments.inspect.report_rows import oldest_driver, report_rows

TORCH = {"cuda": "12.4", "hip": None, "available": True, "devices": 4, "built_for": ["sm_80", "sm_90", "compute_90"]}
SAID: dict[str, Any] = {
    "host": "n",
    "python": "3.11.7",
    "glibc": "2.36",
    "needs_glibc": "2.28 numpy",
    "driver": "550.54.15",
    "gpus": [["NVIDIA H100", "9.0"]],
    "imports": {"torch": {"version": "2.4.0"}},
    "torch": TORCH,
}


def said(node: str = "n1", torch: dict[str, Any] | None = None, **more: Any) -> NodeReport:
    return NodeReport(node, {**SAID, "torch": {**TORCH, **(torch or {})}, **more})


def rows(*reports: NodeReport, gpus: int | None = None) -> list[CheckRow]:
    """Those that are not fine."""
    return [row for row in report_rows(reports, gpus) if row.verdict != OK]


def words(*reports: NodeReport, gpus: int | None = None) -> list[tuple[str, str, str]]:
    return [(row.verdict, row.id, row.value) for row in rows(*reports, gpus=gpus)]


def test_a_healthy_node() -> None:
    assert [row[:4] for row in report_rows([said("n1"), said("n2")], 4) if row.node == "n2"] == [
        ("n2", "env.python", "Python", "3.11.7"),
        ("n2", "env.glibc", "glibc", "2.36"),
        ("n2", "env.imports", "torch", "2.4.0"),
        ("n2", "env.driver", "the GPU driver", "550.54.15"),
        ("n2", "env.gpus", "GPUs", "1 × NVIDIA H100"),
        ("n2", "env.torch", "torch", "built for CUDA 12.4"),
    ]
    assert rows(said("n1"), said("n2"), gpus=4) == []


@pytest.mark.parametrize(
    ("cuda", "driver", "fits"),
    [
        ("12.4", "525.60.13", True),
        ("12.4", "525.60.12", False),
        ("12.4", "470.57.02", False),
        ("11.8", "450.80.02", True),
        ("11.8", "440.33", False),
        ("10.0", "410.48", True),
        ("10.2", "418.39", False),
        ("13.0", "580.65.06", True),
        ("13.0", "570.86", False),
        ("99.0", "1.0", True),
    ],
)
def test_the_driver_against_torchs_cuda(cuda: str, driver: str, fits: bool) -> None:
    found = words(said(driver=driver, torch={"cuda": cuda}))
    value = "%s is too old for torch's CUDA %s, which needs %s" % (driver, cuda, oldest_driver(cuda))
    assert found == ([] if fits else [(BAD, "env.driver", value)])
    blind = report_rows([said(driver=driver, torch={"cuda": cuda, "available": fits})], None)
    assert fits == any(row.id == "env.torch" for row in blind), "one cause, one row"


def test_torch_and_gpus_that_do_not_go_together() -> None:
    assert "without CUDA" in words(said(torch={"cuda": None}))[0][2]
    none = {"driver": "", "gpus": []}
    assert words(said(torch={"cuda": None}, **none)) == []
    assert words(said(**none), gpus=4)[0][:2] == (BAD, "env.driver")
    assert words(said(**none))[0][:2] == (WARNING, "env.driver")
    assert words(said(torch={"available": False}))[0][1:] == (
        "env.torch", "sees no GPU, though there is a driver (550.54.15)",
    )  # fmt: skip
    rocm = {"cuda": None, "hip": "6.1", "available": False}
    assert words(said(torch=rocm, **none))[0] == (WARNING, "env.torch", "sees no GPU")
    old = words(said(gpus=[["Tesla P100", "6.0"], ["Tesla P100", "6.0"]]))
    value = "has no code for Tesla P100 (compute capability 6.0): it is built for sm_80 sm_90 compute_90"
    assert old == [(BAD, "env.torch", value)]
    assert words(said(gpus=[["RTX 3090", "8.6"], ["B200", "10.0"]])) == [], "sm_80 runs on 8.6, compute_90 on 10.0"


def test_gpus_that_are_not_seen_are_no_success() -> None:
    hidden = said(gpus=[], torch={"available": False})
    assert words(hidden, gpus=4)[0] == (UNKNOWN, "env.gpus", "none seen of 4"), "its scheduler may hide them"
    assert not [row for row in report_rows([said(gpus=[])], None) if row.id == "env.gpus"]
    (mixed,) = [
        row for row in report_rows([said(gpus=[["A", "8.0"], ["B", "9.0"], ["A", "8.0"]])], 3) if "gpus" in row.id
    ]
    assert mixed.value == "2 × A, 1 × B"


def test_glibc_python_and_imports() -> None:
    assert words(said(glibc="2.17")) == [(BAD, "env.glibc", "2.17 is older than numpy was built for (2.28)")]
    assert words(NodeReport("n1", {"python": "3.6.8"})) == [
        (BAD, "env.python", "3.6.8 is too old: agents need 3.8"),
    ]
    broken = said(imports={"torch": {"error": "ImportError: libcudart.so.12: cannot open shared object file"}})
    found = rows(broken, NodeReport("n2", broken.said))
    assert [row.node for row in found] == ["n1", "n2"] and "ld_library_path" in found[0].hint
    missing = rows(said(imports={"x": {"error": "ModuleNotFoundError: No module named 'x'"}}))
    assert missing[0].hint == "add it to the environment" and missing[0].what == "x"
    gone = rows(NodeReport("n1", None, 127, "bash: /env/bin/python: No such file or directory"))
    assert gone[0].id == "env.nodes" and "worldsize env pack" in gone[0].hint


def test_nodes_that_differ() -> None:
    found = rows(said("n1"), said("n2", imports={"torch": {"version": "2.3.0"}}), said("n3", python="3.10.1"))
    assert [row[:5] for row in found] == [
        ("", "env.same", "python", "3.11.7 on n1, n2; 3.10.1 on n3", BAD),
        ("", "env.same", "torch", "2.4.0 on n1, n3; 2.3.0 on n2", BAD),
    ]


def test_answers_are_found_among_other_words() -> None:
    line = json.dumps({"python": "3.11"})
    assert parse_node_report("n", 0, "module loaded\n%s\nbye\n" % line, "").said == {"python": "3.11"}
    assert parse_node_report("n", 3, "{not json\n", "first\nlast words\n") == NodeReport("n", None, 3, "last words")
    assert "ended with code 9" in parse_node_report("n", 9, "", "").error


@pytest.mark.heavy
def test_what_a_node_executes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_check, "KNOWN_PACKAGES", ())
    argv = check_argv(sys.executable, ["json", "nowhere"], ["pytest", "no-such-package"])
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    report = parse_node_report("n", 0, done.stdout, done.stderr).said
    assert report is not None and report["python"] == "%d.%d.%d" % sys.version_info[:3]
    imports = report["imports"]
    assert imports["pytest"]["version"] == pytest.__version__ and imports["json"]["version"]
    assert "No module named" in imports["nowhere"]["error"] and "No module named" in imports["no-such-package"]["error"]
