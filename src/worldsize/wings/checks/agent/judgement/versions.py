"""Check that all nodes have the same Python, packages, CUDA, NCCL, driver, kernel and locale.

A difference is bad if it makes a run fail or hang: in the framework's own packages, in NCCL, and in the second number
of Python's version, because one Python does not find the environment of the other. All other differences are warnings.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.state.check_rows import BAD, OK, UNKNOWN, WARNING, CheckRow
from worldsize.wings.checks.agent.cluster import CheckedNode
from worldsize.wings.checks.agent.judgement.groups import (
    NOT_SET,
    Difference,
    Finding,
    difference_of,
    finding_rows,
    holders_text,
    mapping_of,
    value_text,
)

ID = "same.versions"

_WHAT = "the same versions"

_NCCL_WHEEL = "nvidia-nccl-"
"""The prefix of the names of the packages that contain NCCL on index servers."""

_NCCL = frozenset((_NCCL_WHEEL, "nccl"))

_PACKAGES = {
    "pytorch": _NCCL | {"torch"},
    "deepspeed": _NCCL | {"torch", "deepspeed"},
    "tensorflow": frozenset(("tensorflow", "tensorflow-cpu")),
    "horovod": _NCCL | {"horovod", "torch", "tensorflow", "tensorflow-cpu"},
    "jax": _NCCL | {"jax", "jaxlib"},
    "mpi": frozenset(),
    "none": frozenset(),
}
"""The packages of which two versions do not work together, by the framework."""

_ALL_PACKAGES = frozenset(name for names in _PACKAGES.values() for name in names)

_SAME_ENVIRONMENT = "let all nodes use one environment: on a file system that they share, or built from one lock file"

_OTHER_SYSTEM = "other nodes run another release of the system"
_ONE_LOCALE = "set LC_ALL in the job's environment variables"

_SHOWN = ("python", "torch", "tensorflow", "jax", "horovod", "deepspeed", "CUDA", "NCCL", "driver", "kernel")
"""The versions that the row of equal nodes shows, if they are known."""


class _Subject(NamedTuple):
    """A component that has a version: its value on each node that knows it, a function for the verdict on a difference
    from the usual value, and a hint. `group` names what a node without a value does not know; "" if another row reports
    that."""

    name: str
    values: Mapping[int, str]
    verdict: Callable[[str, str], str]
    hint: str = _SAME_ENVIRONMENT
    group: str = ""


def version_rows(nodes: Sequence[CheckedNode], asked: Mapping[str, Any]) -> list[CheckRow]:
    """Return the rows same.versions of the node check: one for each node whose versions differ from most, or that does
    not know a version that others know; otherwise one for all. Empty for a single node, and if nothing is known."""
    subjects = [subject for subject in _subjects(nodes, asked) if subject.values]
    if len(nodes) < 2 or not subjects:
        return []
    rows = [*finding_rows(nodes, ID, _WHAT, _different(nodes, subjects)), *_unknown(nodes, subjects)]
    found = {row.node: row for row in reversed(rows)}  # a difference has priority over an unknown version
    return [found[node.label] for node in nodes if node.label in found] or [_same(nodes, subjects)]


def _same(nodes: Sequence[CheckedNode], subjects: Sequence[_Subject]) -> CheckRow:
    values = {subject.name: next(iter(subject.values.values())) for subject in subjects}
    shown = ", ".join(f"{name} {values[name]}" for name in _SHOWN if values.get(name))
    return CheckRow("", ID, _WHAT, f"{len(nodes)} nodes" + (f": {shown}" if shown else ""), OK)


def _different(nodes: Sequence[CheckedNode], subjects: Sequence[_Subject]) -> Iterator[tuple[int, Finding]]:
    by_rank = {node.node_rank: node for node in nodes}
    for subject in subjects:
        difference = difference_of(subject.values)
        for rank, value in difference.others.items() if difference else ():
            assert difference is not None
            text = _difference_text(subject.name, value, difference, by_rank)
            yield rank, Finding(subject.verdict(value, difference.usual), text, subject.hint)


def _difference_text(name: str, value: str, difference: Difference, by_rank: Mapping[int, CheckedNode]) -> str:
    own = f"{name} {value}" if value else f"no {name}"
    return f"{own}, {holders_text(by_rank, difference.usual_nodes)} {difference.usual or 'none'}"


def _unknown(nodes: Sequence[CheckedNode], subjects: Sequence[_Subject]) -> list[CheckRow]:
    """Return a row of the node check for each node that does not know versions that others know. Drivers and imported
    packages have rows of their own for that."""
    rows = []
    for node in nodes:
        lacks = {subject.group for subject in subjects if subject.group and node.node_rank not in subject.values}
        if lacks:
            value = f"not known: {', '.join(sorted(lacks))}"
            rows.append(CheckRow(node.label, ID, _WHAT, value, UNKNOWN, "other nodes reported it: was this one late?"))
    return rows


def _subjects(nodes: Sequence[CheckedNode], asked: Mapping[str, Any]) -> list[_Subject]:
    uses_python = asked.get("framework") not in ("mpi", "none") and not _is_guessed(asked)
    return [
        _Subject(
            "python", _pythons(nodes), _python_verdict if uses_python else _as_warning, _SAME_ENVIRONMENT, "Python"
        ),
        *_package_subjects(nodes, asked),
        *_torch_subjects(nodes, asked),
        _Subject("driver", _facts(nodes, "driver"), _as_warning, "let the nodes have one version of NVIDIA's driver"),
        _Subject("CUDA of the driver", _facts(nodes, "cuda_driver"), _as_warning, "let the nodes have one driver"),
        _Subject("kernel", _facts(nodes, "kernel"), _as_warning, _OTHER_SYSTEM, "kernel"),
        _Subject("locale", _facts(nodes, "locale"), _as_warning, _ONE_LOCALE, "locale"),
    ]


def _pythons(nodes: Sequence[CheckedNode]) -> dict[int, str]:
    """Return Python's version on each node, by the node's rank; only the first two numbers of all if a node does not
    know the third."""
    full, minor = _facts(nodes, "python"), _facts(nodes, "python_minor")
    return full if full.keys() >= minor.keys() else {**{rank: _minor(text) for rank, text in full.items()}, **minor}


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _python_verdict(value: str, usual: str) -> str:
    return WARNING if _minor(value) == _minor(usual) else BAD


def _as_warning(value: str, usual: str) -> str:
    return WARNING


def _as_bad(value: str, usual: str) -> str:
    return BAD


def _facts(nodes: Sequence[CheckedNode], name: str) -> dict[int, str]:
    """Return the fact `name` of each node that has reported it, as text by the node's rank."""
    return {node.node_rank: value_text(node.facts[name]) for node in nodes if node.facts.get(name) not in (None, "")}


def _package_subjects(nodes: Sequence[CheckedNode], asked: Mapping[str, Any]) -> list[_Subject]:
    """Return, for the comparison of versions, a subject for each Python package that any node has. A node whose
    packages are known and that lacks the package differs from the others."""
    known = {node.node_rank: mapping_of(node.facts["packages"]) for node in nodes if "packages" in node.facts}
    names = sorted({name for packages in known.values() for name in packages})
    return [
        _Subject(
            value_text(name),
            {rank: value_text(packages.get(name) or NOT_SET) for rank, packages in known.items()},
            _as_bad if _is_bad(name, asked) else _as_warning,
            group="packages",
        )
        for name in names
    ]


def _is_bad(name: str, asked: Mapping[str, Any]) -> bool:
    return (_NCCL_WHEEL if name.startswith(_NCCL_WHEEL) else name) in _bad_packages(asked)


def _is_guessed(asked: Mapping[str, Any]) -> bool:
    """Return whether ranks may execute another Python than the one that the check inspected. A difference of versions
    is then a warning."""
    return asked.get("python_guessed") is True


def _bad_packages(asked: Mapping[str, Any]) -> frozenset[str]:
    if _is_guessed(asked):
        return frozenset()
    framework = asked.get("framework")
    return _PACKAGES.get(framework, _ALL_PACKAGES) if isinstance(framework, str) else _ALL_PACKAGES


def _torch_subjects(nodes: Sequence[CheckedNode], asked: Mapping[str, Any]) -> list[_Subject]:
    """Return, for the comparison of versions, the subjects CUDA and NCCL that torch reports it was built with, on nodes
    that imported it. Its own version is included if no node's packages contain it."""
    said = {node.node_rank: mapping_of(node.facts["torch"]) for node in nodes if "torch" in node.facts}
    verdict = _as_bad if "torch" in _bad_packages(asked) else _as_warning
    listed = any("torch" in mapping_of(node.facts.get("packages")) for node in nodes)
    keys = {"cuda": "CUDA", "nccl": "NCCL"} if listed else {"version": "torch", "cuda": "CUDA", "nccl": "NCCL"}
    subjects = [_Subject(name, _values_of(said, key), verdict) for key, name in keys.items()]
    return [subject for subject in subjects if any(subject.values.values())]


def _values_of(said: Mapping[int, Mapping[str, Any]], key: str) -> dict[int, str]:
    return {rank: value_text(torch.get(key) or NOT_SET) for rank, torch in said.items()}
