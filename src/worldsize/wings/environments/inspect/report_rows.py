"""The rows of a check, from the nodes' reports on their Python and packages: what is there, what will not work, and
hints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from worldsize.common.named_tuple import Any
from worldsize.state.check_rows import BAD, OK, UNKNOWN, WARNING, CheckRow
from worldsize.wings.environments.inspect.machine import version_numbers
from worldsize.wings.environments.inspect.node_check import NodeReport

NODES, PYTHON, GLIBC, IMPORTS = "env.nodes", "env.python", "env.glibc", "env.imports"
DRIVER, GPUS, TORCH, SAME = "env.driver", "env.gpus", "env.torch", "env.same"

OLDEST_PYTHON = (3, 8)

OLDEST_DRIVERS = {
    "9": "384.81", "10.0": "410.48", "10.1": "418.39", "10.2": "440.33", "11": "450.80.02", "12": "525.60.13",
    "13": "580.65.06",
}  # fmt: skip
"""The oldest driver for each CUDA, from the release notes' table of minor version compatibility."""

_IMPORT_HINTS = {
    "GLIBC": "it was built for a newer system: use an older version of it, or conda's",
    "cannot open shared object file": "load the module that has this library, or add it to the environment: "
    "ld_library_path, modules",
}
_GPU_HINT = "is a GPU asked for, and CUDA_VISIBLE_DEVICES not empty?"


def report_rows(reports: Sequence[NodeReport], gpus_per_node: int | None) -> list[CheckRow]:
    """Return the rows of the table of `env check`: those of each node's report, and one for each package whose version
    is not the same on all nodes. `gpus_per_node` is the number of GPUs that the compute states; None if it states none.
    """
    return [
        *(CheckRow(report.node, *row) for report in reports for row in _node_rows(report, gpus_per_node)),
        *_differences(reports),
    ]


_Rows = Iterator[tuple[str, str, str, str, str]]
"""The rows of one node: id, what, value, verdict, hint."""


def _node_rows(report: NodeReport, gpus_per_node: int | None) -> _Rows:
    said = report.said
    if said is None:
        missing = report.code in (126, 127)
        mend = "build it where this node sees it, or pack it: worldsize env pack" if missing else ""
        yield NODES, "its report", report.error, BAD, mend
        return
    if version_numbers(said["python"])[:2] < OLDEST_PYTHON:
        what = "{} is too old: agents need {}.{}".format(said["python"], *OLDEST_PYTHON)
        yield PYTHON, "Python", what, BAD, "name a newer one: `python` of the compute, or of the environment"
        return
    yield PYTHON, "Python", f"{said['python']} in {said['prefix']}" if said.get("prefix") else said["python"], OK, ""
    yield from _glibc_rows(said)
    for name, found in said["imports"].items():
        if "error" in found:
            mend = _import_hint(found["error"], name)
            yield IMPORTS, name, f"cannot be imported: {found['error']}", BAD, mend
        else:
            yield IMPORTS, name, found["version"] or "there", OK, ""
    for rows in (_driver_rows, _gpu_rows, _torch_rows):
        yield from rows(said, gpus_per_node)


def _glibc_rows(said: Mapping[str, Any]) -> _Rows:
    needed, _, name = said["needs_glibc"].partition(" ")
    if not said["glibc"]:
        return
    if needed and version_numbers(said["glibc"]) < version_numbers(needed):
        value = f"{said['glibc']} is older than {name} was built for ({needed})"
        yield GLIBC, "glibc", value, BAD, "use an older version of it, or conda's, or a container image"
    else:
        yield GLIBC, "glibc", said["glibc"], OK, ""


def _import_hint(error: str, name: str) -> str:
    if "No module named" in error:
        return "add it to the environment" if name in error else "add its requirements"
    return next((mend for words, mend in _IMPORT_HINTS.items() if words in error), "")


def _driver_rows(said: Mapping[str, Any], gpus_per_node: int | None) -> _Rows:
    """Yield the row of `env check` that compares the node's GPU driver with the driver that torch's CUDA needs."""
    driver, cuda = said["driver"], (said["torch"] or {}).get("cuda")
    here, needed = bool(driver or said["gpus"]), oldest_driver(cuda) if cuda else ""
    if cuda and not here:
        value, verdict = f"none, and torch is built for CUDA {cuda}", BAD if gpus_per_node else WARNING
        yield DRIVER, "the GPU driver", value, verdict, "is it a node with a GPU?"
    elif _is_older(driver, needed):
        value = f"{driver} is too old for torch's CUDA {cuda}, which needs {needed}"
        yield DRIVER, "the GPU driver", value, BAD, "use a torch for an older CUDA, or a newer driver"
    elif driver:
        yield DRIVER, "the GPU driver", driver, OK, ""


def _is_older(driver: str, needed: str) -> bool:
    return bool(driver and needed) and version_numbers(driver) < version_numbers(needed)


def _gpu_rows(said: Mapping[str, Any], gpus_per_node: int | None) -> _Rows:
    """Yield the row of `env check` for the node's GPUs. A node that reports none may have GPUs all the same, since
    schedulers show them only to jobs that request some; the verdict is UNKNOWN then."""
    names = [each[0] for each in said["gpus"]]
    if names:
        counts = (f"{names.count(name)} × {name}" for name in dict.fromkeys(names))
        yield GPUS, "GPUs", ", ".join(counts), OK, ""
    elif gpus_per_node:
        yield GPUS, "GPUs", f"none seen of {gpus_per_node}", UNKNOWN, _GPU_HINT


def _torch_rows(said: Mapping[str, Any], gpus_per_node: int | None) -> _Rows:
    """Yield the rows of `env check` that state whether torch was built for the node's GPUs, and sees them. A driver
    that is missing or too old has a row of its own."""
    torch, here = said["torch"], bool(said["driver"] or said["gpus"])
    if torch is None or (torch["cuda"] and not here):
        return
    if torch["cuda"] is None and torch["hip"] is None:
        if here:
            value = "a build without CUDA, and this node has a GPU"
            yield TORCH, "torch", value, BAD, "install torch's CUDA build"
        else:
            yield TORCH, "torch", "a build without CUDA", OK, ""
        return
    problems = list(_torch_problems(said, gpus_per_node))
    yield from problems
    if torch["available"] and not problems:
        value = f"built for CUDA {torch['cuda']}" if torch["cuda"] else f"built for ROCm {torch['hip']}"
        yield TORCH, "torch", value, OK, ""


def _torch_problems(said: Mapping[str, Any], gpus_per_node: int | None) -> _Rows:
    torch, driver = said["torch"], said["driver"]
    if not torch["available"] and not _is_older(driver, oldest_driver(torch["cuda"] or "")):
        value = "sees no GPU" + (f", though there is a driver ({driver or 'unknown'})" if torch["cuda"] else "")
        yield TORCH, "torch", value, BAD if torch["cuda"] or gpus_per_node else WARNING, _GPU_HINT
    problems = [_architecture_problem(name, capability, torch["built_for"]) for name, capability, *_ in said["gpus"]]
    for value in dict.fromkeys(problem for problem in problems if problem):
        yield TORCH, "torch", value, BAD, "another version of torch"


def _architecture_problem(name: str, capability: str, built_for: Sequence[str]) -> str:
    """Return the reason why torch cannot use the GPU `name`: `built_for` has no code for its compute capability. "" if
    torch can use it. Code for sm_80 also runs on 8.6; code for compute_80 also runs on all later GPUs."""
    own = version_numbers(capability)
    codes = [(kind, int(number)) for each in built_for for kind, number in re.findall(r"(sm|compute)_(\d+)", each)]
    if not own or not codes:
        return ""
    number = own[0] * 10 + (own[1] if len(own) > 1 else 0)
    binary = any(kind == "sm" and code // 10 == own[0] and code <= number for kind, code in codes)
    if binary or any(kind == "compute" and code <= number for kind, code in codes):
        return ""
    return f"has no code for {name} (compute capability {capability}): it is built for {' '.join(built_for)}"


def oldest_driver(cuda: str) -> str:
    """Return the version of the oldest NVIDIA driver that supports the CUDA version `cuda`. "" if the table does not
    contain it."""
    return OLDEST_DRIVERS.get(cuda) or OLDEST_DRIVERS.get(cuda.partition(".")[0], "")


def _differences(reports: Sequence[NodeReport]) -> list[CheckRow]:
    """Return a row of `env check` for each package whose version differs between nodes, which should not happen in one
    environment."""
    answered = [report for report in reports if report.said and "imports" in report.said]
    found = []
    names = ["python", *dict.fromkeys(name for report in answered for name in (report.said or {})["imports"])]
    for name in names:
        by_version: dict[str, list[str]] = {}
        for report in answered:
            version = _version(report.said or {}, name)
            if version is not None:
                by_version.setdefault(version, []).append(report.node)
        if len(by_version) > 1:
            value = "; ".join(f"{version} on {', '.join(nodes)}" for version, nodes in by_version.items())
            found.append(CheckRow("", SAME, name, value, BAD, "the nodes must see one and the same environment"))
    return found


def _version(said: Mapping[str, Any], name: str) -> str | None:
    if name == "python":
        return str(said["python"])
    found = said["imports"].get(name, {})
    return str(found["version"]) if "version" in found else None
