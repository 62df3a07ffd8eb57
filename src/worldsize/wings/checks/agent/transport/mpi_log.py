"""What Open MPI chose, from what it says with `pml_base_verbose`, `mtl_base_verbose` and `btl_base_verbose`, and what
UCX says with `UCX_LOG_LEVEL=info`.

The lines of Open MPI 4.1.4 with UCX 1.13 and of 5.0.11 with UCX 1.20 were measured, on a machine without a fabric;
those of PSM2, of libfabric and of UCX on InfiniBand were read. Standard library only: travels inside agent.pyz
(Python >= 3.8).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from worldsize.common.named_tuple import Any

VERBOSE = {
    "OMPI_MCA_pml_base_verbose": "10",
    "OMPI_MCA_mtl_base_verbose": "10",
    "OMPI_MCA_btl_base_verbose": "10",
    "UCX_LOG_LEVEL": "info",
}
"""The variables that make Open MPI and UCX say it."""

_MOST = 64
_LINE_LIMIT = 2000
_SELECTED_PML = re.compile(r"selected (\w{1,32}) best priority -?[0-9]+")
_SELECTED_MTL = re.compile(r"mca:base:select:\( *mtl\) Selected component \[(\w{1,32})\]")
_BTL_TRIED = re.compile(r"select: initializing btl component (\w{1,32})")
_INIT = re.compile(r"select: init of component (\w{1,32}) returned (success|failure)")
_INIT_FAILED = re.compile(r"select: init returned failure for component (\w{1,32})")
_FOUND = re.compile(r"components_register: found loaded component (\w{1,32})")
_USED = re.compile(r"mca: bml: Using (\w{1,32}) btl for send to \[\[[0-9]+,[0-9]+\],[0-9]+\] on node (\S{1,255})")
_PROVIDER = re.compile(r"mtl:ofi:prov(?:ider)?: (\S{1,64})")
_UCX_PATHS = re.compile(
    r"UCX +INFO +.{0,200}?(inter-node |intra-node |self |)(?:cfg#[0-9]+|ep_cfg\[[0-9]+\]:?) ?tag\(([^)]{0,300})\)"
)
_UCX_VARIABLES = re.compile(r"UCX_\* env variables?: (.{1,500})")
_UCX_SETTING = re.compile(r"(UCX_[A-Z0-9_]{1,40})=(\S{0,100})")


def parse_mpi_log(lines: Iterable[str]) -> dict[str, Any]:
    """What the lines prove, as JSON: `pml` and `mtl`, the components that were selected; `btls` that could be
    initialized; `failed` components; `found` components; `used`, by nodes, the btls that send there; libfabric's
    `provider`; `ucx`, the ways of UCX by "inter-node", "intra-node", "self" and "" (older ones do not say); `variables`
    of UCX. Keys of which nothing is said are missing."""
    found: dict[str, Any] = {}
    for line in lines:
        _read(line[:_LINE_LIMIT], found)
    return found


def _read(line: str, found: dict[str, Any]) -> None:
    if "UCX" in line:
        _read_ucx(line, found)
    for name, pattern in _TEXTS:
        match = pattern.search(line) if _WORDS[name] in line else None
        if match:
            found[name] = match[1]
    for name, pattern in _LISTS:
        match = pattern.search(line) if _WORDS[name] in line else None
        if match:
            _add(found.setdefault(name, []), match[1])
    _read_btl(line, found)


def _read_btl(line: str, found: dict[str, Any]) -> None:
    """Initialized btls: mtls have lines of the same form, so that only what was announced as a btl counts."""
    init = _INIT.search(line) if "init of component" in line else None
    if init and init[1] in found.get("tried", ()):
        _add(found.setdefault("btls" if init[2] == "success" else "failed", []), init[1])
    used = _USED.search(line) if "mca: bml" in line else None
    if used:
        nodes = found.setdefault("used", {})
        if used[2] in nodes or len(nodes) < _MOST:
            _add(nodes.setdefault(used[2], []), used[1])


def _read_ucx(line: str, found: dict[str, Any]) -> None:
    paths = _UCX_PATHS.search(line)
    if paths:
        known = found.setdefault("ucx", {}).setdefault(paths[1].strip(), [])
        for way in paths[2].split():
            _add(known, way)
    settings = _UCX_VARIABLES.search(line)
    if settings:
        found.setdefault("variables", {}).update(_UCX_SETTING.findall(settings[1]))


def _add(values: list[str], value: str) -> None:
    if value not in values and len(values) < _MOST:
        values.append(value)


_TEXTS = (("pml", _SELECTED_PML), ("mtl", _SELECTED_MTL), ("provider", _PROVIDER))
_LISTS = (("tried", _BTL_TRIED), ("failed", _INIT_FAILED), ("found", _FOUND))
_WORDS: Mapping[str, str] = {
    "pml": "best priority",
    "mtl": "Selected component",
    "provider": "mtl:ofi:prov",
    "tried": "initializing btl",
    "failed": "returned failure for",
    "found": "found loaded",
}
"""A part of each line, which is quicker to look for."""
