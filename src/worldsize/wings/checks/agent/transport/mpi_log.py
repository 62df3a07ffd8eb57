"""Parser for the choices of Open MPI in its output with `pml_base_verbose`, `mtl_base_verbose` and `btl_base_verbose`,
and in the output of UCX with `UCX_LOG_LEVEL=info`.

The lines of Open MPI 4.1.4 with UCX 1.13 and of 5.0.11 with UCX 1.20 were measured on a machine without a fabric. Those
of PSM2, of libfabric and of UCX on InfiniBand were read in documents.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from worldsize.common.named_tuple import Any

VERBOSE = {
    "OMPI_MCA_pml_base_verbose": "10",
    "OMPI_MCA_mtl_base_verbose": "10",
    "OMPI_MCA_btl_base_verbose": "10",
    "UCX_LOG_LEVEL": "info",
}
"""The variables that make Open MPI and UCX print these lines."""

_MOST = 64
_LINE_LIMIT = 2000
_LINES = (
    ("pml", "best priority", re.compile(r"selected (\w{1,32}) best priority -?[0-9]+")),
    ("mtl", "Selected component", re.compile(r"mca:base:select:\( *mtl\) Selected component \[(\w{1,32})\]")),
    ("provider", "mtl:ofi:prov", re.compile(r"mtl:ofi:prov(?:ider)?: (\S{1,64})")),
    ("tried", "initializing btl", re.compile(r"select: initializing btl component (\w{1,32})")),
    ("failed", "returned failure for", re.compile(r"select: init returned failure for component (\w{1,32})")),
    ("found", "found loaded", re.compile(r"components_register: found loaded component (\w{1,32})")),
)
"""The name of the value in a line, a part of the line that is quicker to search for, and the form of the line."""
_LISTS = ("tried", "failed", "found")
_INIT = re.compile(r"select: init of component (\w{1,32}) returned (success|failure)")
_UCX_PATHS = re.compile(r"UCX +INFO +.{0,200}?inter-node cfg#[0-9]+ ?tag\(([^)]{0,300})\)")
_UCX_VARIABLES = re.compile(r"UCX_\* env variables?: (.{1,500})")
_UCX_SETTING = re.compile(r"(UCX_[A-Z0-9_]{1,40})=(\S{0,100})")


def parse_mpi_log(lines: Iterable[str]) -> dict[str, Any]:
    """Parse the lines of Open MPI's and UCX's output and return what they prove, as JSON: `pml` and `mtl`, the
    components that were selected; `btls` that could be initialized; `tried` btls; `failed` components; `found`
    components; libfabric's `provider`; `ucx`, UCX's transports to other nodes (older versions do not report which those
    are); `variables` of UCX. Keys without information are missing."""
    found: dict[str, Any] = {}
    for line in lines:
        _read(line[:_LINE_LIMIT], found)
    return found


def _read(line: str, found: dict[str, Any]) -> None:
    if "UCX" in line:
        _read_ucx(line, found)
    for name, words, pattern in _LINES:
        match = pattern.search(line) if words in line else None
        if match and name in _LISTS:
            _add(found.setdefault(name, []), match[1])
        elif match:
            found[name] = match[1]
    _read_btl(line, found)


def _read_btl(line: str, found: dict[str, Any]) -> None:
    """Record in `found` whether the line of Open MPI's output states that a btl could be initialized. Lines about mtls
    have the same form, so only a component that was announced as a btl counts."""
    init = _INIT.search(line) if "init of component" in line else None
    if init and init[1] in found.get("tried", ()):
        _add(found.setdefault("btls" if init[2] == "success" else "failed", []), init[1])


def _read_ucx(line: str, found: dict[str, Any]) -> None:
    paths = _UCX_PATHS.search(line)
    for way in paths[1].split() if paths else ():
        _add(found.setdefault("ucx", []), way)
    settings = _UCX_VARIABLES.search(line)
    if settings:
        found.setdefault("variables", {}).update(_UCX_SETTING.findall(settings[1]))


def _add(values: list[str], value: str) -> None:
    if value not in values and len(values) < _MOST:
        values.append(value)
