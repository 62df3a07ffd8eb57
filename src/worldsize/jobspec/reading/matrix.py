"""Options for several runs of one job: a matrix of inputs, or a count of equal runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod

from worldsize.errors import JobError
from worldsize.jobspec.job import Input, Job, Literal, is_array_job
from worldsize.jobspec.keys.job import VALUE_TYPES
from worldsize.jobspec.keys.key import Key
from worldsize.jobspec.reading.nearest import did_you_mean
from worldsize.jobspec.reading.problems import Problems
from worldsize.jobspec.reading.tree import YamlNode, value_description
from worldsize.jobspec.reading.values import join, mapping_of, text_fault
from worldsize.plan.array import MAX_ELEMENTS


def read_matrix(node: YamlNode, path: str, key: Key, report: Problems) -> dict[str, tuple[Literal, ...]]:
    nodes = mapping_of(node, path, report)
    return {name: tuple(_read_values(item, join(path, name), report)) for name, item in nodes.items()}


def _read_values(node: YamlNode, path: str, report: Problems) -> Iterator[Literal]:
    if not isinstance(node.value, list) or not node.value:
        found = "an empty list" if node.value == [] else value_description(node)
        report.add(node, path, f"expected a list of values, found {found}", "such as [0.1, 0.01]")
        return
    for index, item in enumerate(node.value):
        value = item.text if item.value is None and item.loose and item.text else item.value
        fault = text_fault(value) if isinstance(value, str) else None
        if fault or not isinstance(value, (str, int, float, bool)):
            report.add(item, f"{path}[{index}]", fault or f"expected a literal, found {value_description(item)}")
        else:
            yield value


def check_array(nodes: Mapping[str, YamlNode], job: Job, report: Problems) -> None:
    """Check the keys `matrix`, `count` and `at_once` of `job`, and add problems to `report` that do not concern a
    single value: unknown inputs, matrix and count together, too many runs."""
    for name in job.matrix:
        for what, hint in _find_input_problems(job, name):
            report.add(nodes["matrix"].value.get(name, nodes["matrix"]), join("matrix", name[:60]), what, hint)
    if job.matrix and job.count is not None:
        hint = "keep one of them; to repeat each combination, add an input such as repeat: [1, 2, 3]"
        report.add(nodes.get("count", nodes["matrix"]), "count", "cannot be combined with matrix", hint)
    number = prod(map(len, job.matrix.values()))
    if number > MAX_ELEMENTS:
        report.add(nodes["matrix"], "matrix", *_limit_problem(number))
    if job.at_once is not None and not is_array_job(job):
        report.add(nodes["at_once"], "at_once", "has no meaning for a single run", "set matrix or count too")


def _find_input_problems(job: Job, name: str) -> Iterator[tuple[str, str | None]]:
    kind = job.input_types.get(name)
    if kind is not None and kind.type in VALUE_TYPES:
        return
    if name not in job.inputs:
        literals = [other for other, value in job.inputs.items() if not isinstance(value, Input)]
        yield "names none of the job's inputs", did_you_mean(name, literals, "they are") or "declare it under inputs"
    elif isinstance(job.inputs[name], Input):
        yield "is data with a path, and a matrix varies literals", "make it a literal: the path as text"


def _limit_problem(number: int) -> tuple[str, str]:
    return f"{number} runs are more than the limit of {MAX_ELEMENTS}", "submit them in parts"


def with_matrix(job: Job, settings: Iterable[str], declare: bool) -> Job:
    """Return `job` with its inputs varied as the `--matrix` options `settings` state, each `NAME=V1,V2,…`. They replace
    the values for these inputs in the job's own matrix.

    A value is read as a YAML scalar; `NAME=[…]` is a list of YAML. With `declare`, an input that the job does not have
    is declared. Raise JobError that names the setting.
    """
    matrix = dict(job.matrix)
    inputs = dict(job.inputs)
    for setting in settings:
        name, equals, text = setting.partition("=")
        name, where = name.strip(), f"--matrix {name.strip()[:60]}"
        if not equals or not name.isidentifier() or not name.isascii():
            raise JobError(f"{setting!r:.60} varies no input", "--matrix", "write NAME=V1,V2, such as lr=0.1,0.01")
        report = Problems()
        matrix[name] = tuple(_read_values(_read_value_list(text, where), "", report))
        report.check()
        if declare and name not in inputs:
            inputs[name] = matrix[name][0]
    changed = job._replace(matrix=matrix, inputs=inputs)
    for name in matrix:
        for what, hint in _find_input_problems(changed, name):
            raise JobError(what, f"--matrix {name}", hint)
    number = prod(map(len, matrix.values()))
    if number > MAX_ELEMENTS:
        what, hint = _limit_problem(number)
        raise JobError(what, "--matrix", hint)
    return changed


def _read_value_list(text: str, where: str) -> YamlNode:
    from worldsize.jobspec.reading.yaml import read_setting

    if text.lstrip().startswith("["):
        return read_setting(text.strip(), where)
    if "'" in text or '"' in text:
        return read_setting(f"[{text}]", where)
    parts = text.split(",")
    if not all(part.strip() for part in parts):
        raise JobError("a value is empty", where, "write empty text as ''")
    return YamlNode([read_setting(part.strip(), where) for part in parts], text, where, 0, True)


def with_count(job: Job, count: int, where: str = "--count") -> Job:
    """Return `job` as an array of `count` equal runs. Raise JobError, at `where`, for a count below 1, for too many
    runs, and for a job with a matrix."""
    if not 1 <= count <= MAX_ELEMENTS:
        raise JobError(f"is {count}, must be 1 to {MAX_ELEMENTS}", where)
    if job.matrix:
        raise JobError("cannot be combined with a matrix", where, "add an input such as repeat=1,2,3")
    return job._replace(count=count)
