"""The problems that nodes' reports on their Python and packages show: what will not work there, and the mend. Nothing
here executes anything on a node."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from worldsize.wings.environments.inspect.machine import version_numbers

OLDEST_PYTHON = (3, 8)

OLDEST_DRIVERS = {
    "9": "384.81", "10.0": "410.48", "10.1": "418.39", "10.2": "440.33", "11": "450.80.02", "12": "525.60.13",
    "13": "580.65.06",
}  # fmt: skip
"""The oldest driver for each CUDA, from the release notes' table of minor version compatibility."""

KNOWN_PACKAGES = (
    "torch", "torchvision", "tensorflow", "jax", "numpy", "scipy", "pandas", "scikit-learn", "transformers", "datasets",
    "lightning", "deepspeed", "horovod", "mpi4py", "accelerate",
)  # fmt: skip
"""Packages that are looked at wherever they are installed, without being asked for."""

_IMPORT_HINTS = {
    "GLIBC": "it was built for a newer system: an older version of it, or conda's",
    "cannot open shared object file": "load the module that has this library, or add it to the environment: "
    "ld_library_path, modules",
}

_BOOT = """\
import sys
if sys.version_info < (3, 8):
    sys.stdout.write('{"python": "%d.%d.%d"}\\n' % sys.version_info[:3])
else:
    text = sys.argv[1]
    sys.argv[1:2] = []
    exec(compile(text, "checkup", "exec"), {"__name__": "__main__"})
"""


class NodeProblem(NamedTuple):
    """`level` is "error" or "notice"; `nodes` are those that have it."""

    level: str
    nodes: tuple[str, ...]
    what: str
    mend: str = ""


class NodeReport(NamedTuple):
    """One node's answer: `said` is its report, None where it gave none."""

    node: str
    said: Mapping[str, Any] | None
    code: int = 0
    error: str = ""


def check_argv(python: str, modules: Sequence[str], distributions: Sequence[str]) -> list[str]:
    """The command that a node executes to report on `modules` and `distributions`, and on those of KNOWN_PACKAGES that
    are installed there."""
    from worldsize.wings.environments.agent import python_report

    with open(python_report.__file__, encoding="utf-8") as file:
        program = file.read()
    asked = {"modules": modules, "distributions": distributions, "optional": KNOWN_PACKAGES}
    return [python, "-c", _BOOT, program, json.dumps(asked)]


def parse_node_report(node: str, code: int | None, out: str, err: str) -> NodeReport:
    """Find the report in what a node printed, whatever its start-up files print around it. A node without a `code` was
    lost."""
    if code is None:
        return NodeReport(node, None, 1, err)
    for line in reversed(out.splitlines()):
        if line.startswith("{"):
            try:
                said = json.loads(line)
            except ValueError:
                continue
            if isinstance(said, dict) and "python" in said:
                return NodeReport(node, said)
    last = err.strip().splitlines()
    return NodeReport(node, None, code, last[-1] if last else f"it said nothing, and ended with code {code}")


def find_problems(rows: Sequence[NodeReport], gpus_per_node: int | None) -> list[NodeProblem]:
    """Return every problem, one that several nodes have once; errors first."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        for level, what, mend in _node_problems(row, gpus_per_node):
            found.setdefault((level, what, mend), []).append(row.node)
    problems = [NodeProblem(level, tuple(nodes), what, mend) for (level, what, mend), nodes in found.items()]
    problems += _differences(rows)
    return sorted(problems, key=lambda problem: problem.level != "error")


_Findings = Iterator[tuple[str, str, str]]


def _node_problems(row: NodeReport, gpus_per_node: int | None) -> _Findings:
    said = row.said
    if said is None:
        missing = row.code in (126, 127)
        mend = "build it where this node sees it, or pack it: worldsize env pack" if missing else ""
        yield "error", row.error, mend
        return
    version = tuple(map(int, re.findall(r"\d+", said["python"])[:2]))
    if version < OLDEST_PYTHON:
        what = "Python {} is too old: agents need {}.{}".format(said["python"], *OLDEST_PYTHON)
        yield "error", what, "name a newer one: `python` of the compute, or of the environment"
        return
    yield from _glibc_problems(said)
    for name, found in said["imports"].items():
        if "error" in found:
            yield "error", f"{name} cannot be imported: {found['error']}", _import_hint(found["error"], name)
    yield from _gpu_problems(said, gpus_per_node)


def _glibc_problems(said: Mapping[str, Any]) -> _Findings:
    needed, _, name = said["needs_glibc"].partition(" ")
    if said["glibc"] and needed and version_numbers(said["glibc"]) < version_numbers(needed):
        what = f"glibc {said['glibc']} is older than {name} was built for ({needed})"
        yield "error", what, "an older version of it, or conda's, or a container image"


def _import_hint(error: str, name: str) -> str:
    if "No module named" in error:
        return "add it to the environment" if name in error else "add what it needs"
    return next((mend for words, mend in _IMPORT_HINTS.items() if words in error), "")


def _gpu_problems(said: Mapping[str, Any], gpus_per_node: int | None) -> _Findings:
    torch, driver = said["torch"], said["driver"]
    if torch is None:
        return
    here = bool(driver or said["gpus"])
    cuda = torch["cuda"]
    if cuda is None and torch["hip"] is None:
        if here:
            yield "error", "torch is a build without CUDA, and this node has a GPU", "install torch's CUDA build"
        return
    if cuda and not here:
        level = "error" if gpus_per_node else "notice"
        yield level, f"torch is built for CUDA {cuda}, and this node has no driver", "is it a node with a GPU?"
        return
    needed = oldest_driver(cuda) if cuda else ""
    if needed and driver and version_numbers(driver) < version_numbers(needed):
        what = f"driver {driver} is too old for torch's CUDA {cuda}, which needs {needed}"
        yield "error", what, "a torch for an older CUDA, or a newer driver"
    elif not torch["available"]:
        what = "torch sees no GPU, though there is a driver ({})".format(driver or "unknown")
        yield "error", what, "is a GPU asked for, and CUDA_VISIBLE_DEVICES not empty?"
    for name, capability in (each[:2] for each in said["gpus"]):
        yield from _architecture_problems(name, capability, torch["built_for"])


def _architecture_problems(name: str, capability: str, built_for: Sequence[str]) -> _Findings:
    """Code for sm_80 runs on 8.6 too; that of compute_80 on all later ones."""
    own = version_numbers(capability)
    codes = [(kind, int(number)) for each in built_for for kind, number in re.findall(r"(sm|compute)_(\d+)", each)]
    if not own or not codes:
        return
    number = own[0] * 10 + (own[1] if len(own) > 1 else 0)
    binary = any(kind == "sm" and code // 10 == own[0] and code <= number for kind, code in codes)
    if not binary and not any(kind == "compute" and code <= number for kind, code in codes):
        what = "torch has no code for %s (compute capability %s): it is built for %s"
        yield "error", what % (name, capability, " ".join(built_for)), "another version of torch"


def oldest_driver(cuda: str) -> str:
    """The oldest driver that serves this CUDA; "" where the table does not have it."""
    return OLDEST_DRIVERS.get(cuda) or OLDEST_DRIVERS.get(cuda.partition(".")[0], "")


def _differences(rows: Sequence[NodeReport]) -> list[NodeProblem]:
    """A problem for each package whose version differs between nodes, which it should not in one environment."""
    answered = [row for row in rows if row.said and "imports" in row.said]
    found = []
    names = ["python", *dict.fromkeys(name for row in answered for name in (row.said or {})["imports"])]
    for name in names:
        by_version: dict[str, list[str]] = {}
        for row in answered:
            version = version_of(row.said or {}, name)
            if version is not None:
                by_version.setdefault(version, []).append(row.node)
        if len(by_version) > 1:
            said = "; ".join(f"{version} on {', '.join(nodes)}" for version, nodes in by_version.items())
            nodes = tuple(node for each in by_version.values() for node in each)
            found.append(NodeProblem("error", nodes, f"{name} is not the same everywhere: {said}"))
    return found


def version_of(said: Mapping[str, Any], name: str) -> str | None:
    if name == "python":
        return str(said["python"])
    found = said["imports"].get(name, {})
    return str(found["version"]) if "version" in found else None
