"""Parser for a job described in XML: `<Job><Tasks><Task CommandLine="…"/></Tasks></Job>`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from worldsize_hpcpack_simulator.catalog import JOB, TASK, Property, canonical_name, parse_properties
from worldsize_hpcpack_simulator.scheduler.jobs import Job
from worldsize_hpcpack_simulator.scheduler.scheduler import Scheduler
from worldsize_hpcpack_simulator.wire import RequestRefused

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element  # nosec B405  # a type


def job_from_xml(scheduler: Scheduler, owner: str, text: str) -> Job:
    """Create the job that the XML `text` describes, with its tasks, in the state Configuring, and return it. Attributes
    that only the scheduler sets are ignored. Raise RequestRefused if it is no job, or contains an invalid value."""
    from xml.etree.ElementTree import ParseError, fromstring  # nosec B405  # text of an authenticated user

    try:
        root = fromstring(text.strip())  # nosec B314  # of an authenticated user; expat limits the size of entities
    except (ParseError, ValueError) as error:
        raise RequestRefused(400, f"The job is not well-formed XML: {error}.") from None
    if _name(root) != "Job":
        raise RequestRefused(400, f"The XML describes no Job but {_name(root)}.")
    tasks = [each for inner in root if _name(inner) == "Tasks" for each in inner if _name(each) == "Task"]
    told = [_parse_attributes(each, TASK, "task") for each in tasks]
    values = _parse_attributes(root, JOB, "job")
    values.pop("Owner", None)
    job = scheduler.add(owner, values)
    job.environ, job.custom = _parse_pairs(root, "EnvironmentVariables"), _parse_pairs(root, "CustomProperties")
    for element, each in zip(tasks, told, strict=True):
        task = job.add({**each, "Type": "ParametricSweep"} if each.get("IsParametric") == "True" else each)
        task.environ, task.custom = (
            _parse_pairs(element, "EnvironmentVariables"),
            _parse_pairs(element, "CustomProperties"),
        )
    return job


def _name(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _parse_attributes(element: Element, table: Mapping[str, Property], what: str) -> dict[str, str]:
    return parse_properties(
        {name: value for name, value in element.attrib.items() if canonical_name(name, table)}, table, what
    )


def _parse_pairs(element: Element, of: str) -> dict[str, str]:
    """Return the names and values of a job's or task's variables or custom properties: those in
    `<Variable><Name>…</Name><Value>…</Value></Variable>` below the child `of` of `element`."""
    found: dict[str, str] = {}
    for pair in (pair for inner in element if _name(inner) == of for pair in inner):
        words = {_name(word): word.text or "" for word in pair}
        if words.get("Name"):
            found[words["Name"]] = words.get("Value", "")
    return found
