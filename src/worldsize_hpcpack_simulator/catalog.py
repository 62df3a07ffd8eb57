"""The properties of jobs and tasks: their names, their possible values, and when they may be set. One table each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from worldsize_hpcpack_simulator.wire import RequestRefused, date_text, parse_date

PRIORITIES = ("Lowest", "BelowNormal", "Normal", "AboveNormal", "Highest")
UNITS = ("Core", "Socket", "Node", "GPU")
_TRUE, _FALSE = ("true", "1"), ("false", "0")
_LARGEST = 2**31 - 1


class Property(NamedTuple):
    """A property that may be set.

    kind     "text", "number", "flag", "date", or the allowed words, which may also be given by their index
    default  the value until it is set; a property with the value "" is not listed among all properties
    later    the later phases of the job, "queued" and "running", in which it may be set; every property may be set
             while the job is configured
    """

    kind: str | tuple[str, ...] = "text"
    default: str = ""
    later: tuple[str, ...] = ()


_ALWAYS = ("queued", "running")
_SIZE = Property("number", "1", _ALWAYS)
_FLAG = Property("flag", "False")

JOB: Mapping[str, Property] = {
    "Name": Property(later=("running",)),
    "Owner": Property(),
    "UserName": Property(),
    "Project": Property(later=_ALWAYS),
    "JobTemplate": Property(default="Default"),
    "Priority": Property(PRIORITIES, "Normal", _ALWAYS),
    "UnitType": Property(UNITS, "Core"),
    **{limit + unit: _SIZE for unit in ("Cores", "Sockets", "Nodes", "GPUs") for limit in ("Min", "Max")},
    "AutoCalculateMin": Property("flag", "True"),
    "AutoCalculateMax": Property("flag", "True"),
    "RequestedNodes": Property(later=("queued",)),
    "ExcludedNodes": Property(later=_ALWAYS),
    "NodeGroups": Property(later=("queued",)),
    "NodeGroupOp": Property(("Intersect", "Uniform", "Union"), "Intersect"),
    "IsExclusive": _FLAG,
    "FailOnTaskFailure": Property("flag", "False", _ALWAYS),
    "RunUntilCanceled": Property("flag", "False", _ALWAYS),
    "RuntimeSeconds": Property("number", "", _ALWAYS),
    "Runtime": Property("number", "", _ALWAYS),
    "HoldUntil": Property("date", "", ("queued",)),
    "ParentJobIds": Property(later=("queued",)),
    "CanGrow": Property("flag", "True"),
    "CanShrink": Property("flag", "True"),
    "CanPreempt": Property("flag", "True"),
    "IsBackfill": _FLAG,
    "SingleNode": _FLAG,
    "OrderBy": Property(),
    "SoftwareLicense": Property(),
    "EmailAddress": Property(later=_ALWAYS),
    "NotifyOnStart": Property("flag", "False", _ALWAYS),
    "NotifyOnCompletion": Property("flag", "False", _ALWAYS),
    "Progress": Property("number", "0", _ALWAYS),
    "ProgressMessage": Property(later=_ALWAYS),
    "TaskExecutionFailureRetryLimit": Property("number", "0", _ALWAYS),
    "ClientSource": Property(),
    "EstimatedProcessMemory": Property("number"),
    "MinMemory": Property("number"),
    "MaxMemory": Property("number"),
    "MinCoresPerNode": Property("number"),
    "MaxCoresPerNode": Property("number"),
    "ServiceName": Property(),
}
JOB_READ = (
    *("Id", "State", "PreviousState", "ErrorMessage", "PendingReason", "AllocatedNodes", "CreateTime", "SubmitTime"),
    *("StartTime", "EndTime", "ChangeTime", "RequeueCount", "ChildJobIds", "HasRuntime", "NextTaskId"),
)

TASK_TYPES = ("Basic", "ParametricSweep", "NodePrep", "NodeRelease", "Service")
TASK: Mapping[str, Property] = {
    "Name": Property(),
    "Type": Property(TASK_TYPES, "Basic"),
    "CommandLine": Property(),
    "WorkDirectory": Property(),
    "StdInFilePath": Property(),
    "StdOutFilePath": Property(),
    "StdErrFilePath": Property(),
    **{
        limit + unit: Property("number", "1")
        for unit in ("Cores", "Sockets", "Nodes", "GPUs")
        for limit in ("Min", "Max")
    },
    "RequiredNodes": Property(),
    "DependsOn": Property(),
    "IsExclusive": _FLAG,
    "IsRerunnable": Property("flag", "True"),
    "RuntimeSeconds": Property("number"),
    "Runtime": Property("number"),
    "StartValue": Property("number", "1"),
    "EndValue": Property("number", "1"),
    "IncrementValue": Property("number", "1"),
    "IsParametric": _FLAG,
    "FailJobOnFailure": _FLAG,
    "FailJobOnFailureCount": Property("number"),
    "ValidExitCodes": Property(),
    "UserBlob": Property(),
}
TASK_READ = (
    *("TaskId", "ParentJobId", "JobTaskId", "InstanceId", "State", "PreviousState", "ExitCode", "Output"),
    *("ErrorMessage", "AllocatedNodes", "AllocatedCoreIds", "RequeueCount", "CreateTime", "SubmitTime", "StartTime"),
    *("EndTime", "ChangeTime", "Id", "HasRuntime", "IsServiceConcluded"),
)
SYNONYMS = (("Runtime", "RuntimeSeconds"),)
"""Pairs of names for the same property. A value that is set under one name is also stored under the other."""


def canonical_name(name: str, known: Iterable[str]) -> str | None:
    """Return the name among `known` that equals `name` in any letter case and without spaces around it, in the spelling
    of `known`; None if there is none."""
    return {each.lower(): each for each in known}.get(name.strip().lower())


def parse_properties(given: Mapping[str, str], table: Mapping[str, Property], what: str) -> dict[str, str]:
    """Return the properties in `given`, names and values in any letter case, under the names of `table` and with the
    values in their own spelling. `what` is "job" or "task", for messages. Raise RequestRefused if a name or a value is
    not valid."""
    values: dict[str, str] = {}
    for word, text in given.items():
        name = canonical_name(word, table)
        if name is None:
            raise RequestRefused(400, f"{word} is not a property of a {what} that can be set.")
        values[name] = _parse_value(name, text, table[name].kind)
    for one, other in (*SYNONYMS, *((there, here) for here, there in SYNONYMS)):
        if one in values:
            values[other] = values[one]
    return values


def _parse_value(name: str, text: str, kind: str | tuple[str, ...]) -> str:
    plain = text.strip()
    if kind == "text" or not plain:
        return text
    if kind == "date":
        return date_text(parse_date(plain))
    if kind == "flag" and plain.lower() in (*_TRUE, *_FALSE):
        return "True" if plain.lower() in _TRUE else "False"
    if kind == "number" and plain.lstrip("-").isascii() and plain.lstrip("-").isdigit() and abs(int(plain)) <= _LARGEST:
        return str(int(plain))
    if isinstance(kind, tuple):
        found = canonical_name(plain, kind)
        if found is None and plain.isascii() and plain.isdigit() and int(plain) < len(kind):
            found = kind[int(plain)]
        if found is not None:
            return found
    raise RequestRefused(400, f"{text[:80]!r} is not a value of property {name}.")


def check_settable(values: Mapping[str, str], table: Mapping[str, Property], phase: str, state: str) -> None:
    """Raise RequestRefused unless all properties in `values` may be set while the job is in this phase: "configuring",
    "queued", "running". `state` is the job's state, for the message."""
    for name in values:
        if phase != "configuring" and phase not in table[name].later:
            raise RequestRefused(400, f"Property {name} cannot be changed in the {state} state.")
