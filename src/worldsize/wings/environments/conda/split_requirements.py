"""The split of a requirements list into packages of conda's channels and packages of pip. The solver tries each split,
so that nothing is guessed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

from packaging.requirements import InvalidRequirement, Requirement

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.errors import UsageError
from worldsize.jobspec.requirement import is_editable, split_requirement
from worldsize.wings.environments.inspect.installed import normalized_name
from worldsize.wings.environments.pip.requirement_lines import list_lines, parse_include

_NO_WIDTH = 1 << 30

CONDA_NAMES = {
    "torch": "pytorch", "opencv-python": "py-opencv", "opencv-python-headless": "py-opencv", "tables": "pytables",
    "msgpack": "msgpack-python", "graphviz": "python-graphviz", "xxhash": "python-xxhash", "lmdb": "python-lmdb",
    "blosc": "python-blosc", "duckdb": "python-duckdb", "flatbuffers": "python-flatbuffers", "build": "python-build",
    "snappy": "python-snappy", "tzdata": "python-tzdata", "typing-extensions": "typing_extensions",
    "faiss-cpu": "faiss", "faiss-gpu": "faiss", "kaleido": "python-kaleido", "igraph": "python-igraph",
    "annoy": "python-annoy", "levenshtein": "python-levenshtein", "dateutil": "python-dateutil",
}  # fmt: skip
"""Names that differ between PyPI and conda's channels. Several of PyPI's names denote another package in the
channels."""


class RequirementLine(NamedTuple):
    """A line of a requirements list. `spec` is the conda spec for it; None if only pip understands the line, for the
    reason `why`."""

    line: str
    spec: str | None = None
    why: str = ""


class Proposal(NamedTuple):
    """The result of a split: `conda` specs, `pip` lines, and the reason `why` each pip line is not conda's."""

    conda: tuple[str, ...]
    pip: tuple[str, ...]
    why: dict[str, str]


SpecQuery = Callable[[Sequence[str]], list[str]]
"""Function that returns those of the given specs for which the channels have a package."""

ConflictQuery = Callable[[Sequence[str]], str | None]
"""Function that returns the reason why specs do not fit together; None if they do."""


def read_list(path: str) -> list[RequirementLine]:
    """Return the lines of the requirements file `path`, and of the files that it includes, each with the conda spec for
    it, if there is one. Raise NotFound or UsageError."""
    lines = list_lines(["-r " + os.path.abspath(path)], ("-r",))
    return [parse_requirement(line) for line in lines if not _is_include(line)]


def _is_include(line: str) -> bool:
    include = parse_include(line)
    return include is not None and include[0] == "-r"


def parse_requirement(line: str) -> RequirementLine:
    parts = split_requirement(line)
    if is_editable(line):
        why = "would be installed as it is now: an environment cannot contain sources that change"
        return RequirementLine(parts.place + parts.after, why=why)
    if line.startswith("-"):
        return RequirementLine(line, why="is an option of pip")
    if parts.place:
        return RequirementLine(line, why="is not a package of a channel")
    text = re.sub(r"\s--hash=\S+", "", line).strip()
    try:
        asked = Requirement(text)
    except (InvalidRequirement, RecursionError):
        return RequirementLine(line, why="is understood only by pip")
    said = text[len(asked.name) :]
    if said.lstrip().startswith("["):  # the brackets may be empty
        return RequirementLine(line, why="has extras, which conda does not support")
    if asked.marker:
        return RequirementLine(line, why="has a condition, which conda does not support")
    versions = re.sub(r"[\s()]", "", said)
    if "+" in versions:
        return RequirementLine(line, why="comes from its own index")
    name = normalized_name(asked.name)
    return RequirementLine(line, f"{CONDA_NAMES.get(name, name)} {versions.replace('===', '==')}".strip())


def propose(found: Sequence[RequirementLine], python: str | None, known: SpecQuery, trial: ConflictQuery) -> Proposal:
    """Return a split of the requirements `found` between conda and pip. Packages that the channels have go to conda,
    together with Python, if they fit together; all others go to pip.

    If they do not fit together, the packages that the solver names go to pip, one after the other, until the rest fits.
    Raise UsageError if the channels have no such Python.
    """
    why = {each.line: each.why for each in found if each.spec is None}
    asked = [each for each in found if each.spec is not None]
    had = known([each.spec or "" for each in asked]) if asked else []
    conda = [each for each in asked if each.spec in had]
    why.update({each.line: "is in none of the channels" for each in asked if each.spec not in had})
    base = [f"python {python}.*"] if python else ["python"]
    while conda:
        said = trial([*base, *(each.spec or "" for each in conda)])
        if said is None:
            break
        if trial(base) is not None:
            raise UsageError(f"the channels have no {base[0]}", None, "another --python, or another --channel")
        blamed = _find_misfit(conda, said, base, trial)
        conda.remove(blamed)
        why[blamed.line] = "does not fit with the others"
    pip = [each.line for each in found if each not in conda]
    specs = [f"python={python}" if python else "python", *(_to_conda_spec(each.spec or "") for each in conda)]
    return Proposal(tuple(specs), tuple(pip), why)


def _find_misfit(
    conda: Sequence[RequirementLine], said: str, base: Sequence[str], trial: ConflictQuery
) -> RequirementLine:
    """Return the requirement to move from conda to pip if the conda packages do not fit together. The candidates are
    the requirements that the solver's message `said` names, or all if it names none. Choose the last candidate without
    which the others fit, or the very last if more than one has to go."""
    named = [each for each in conda if re.search(rf"(?<![\w-]){re.escape(_name(each))}(?![\w-])", said)]
    candidates = named or list(conda)
    for each in reversed(candidates):
        if trial([*base, *(other.spec or "" for other in conda if other is not each)]) is None:
            return each
    return candidates[-1]


def _name(each: RequirementLine) -> str:
    return (each.spec or "").partition(" ")[0]


def _to_conda_spec(spec: str) -> str:
    name, _, versions = spec.partition(" ")
    return name + versions


def environment_yaml(proposal: Proposal, name: str, channels: Sequence[str]) -> str:
    """Return the text of an environment.yml with the proposed conda and pip packages. conda can read it as well."""
    import yaml

    dependencies: list[Any] = [*proposal.conda]
    if proposal.pip:
        dependencies.append({"pip": [*proposal.pip]})
    said = {"name": name, "channels": [*channels], "dependencies": dependencies}
    return str(yaml.safe_dump(said, sort_keys=False, allow_unicode=True, width=_NO_WIDTH))
