"""The verb describe: all that is known about one run: what it is, where and how it ran, and its outcome."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Mapping, Sequence

from worldsize.cli.console import (
    add_output_option,
    add_run_argument,
    count_text,
    duration_text,
    find_run,
    rehearsal_text,
    tags_text,
)
from worldsize.cli.output import report, show, show_json
from worldsize.cli.runs.notices import notices_data
from worldsize.cli.runs.times import time_text, with_times
from worldsize.common.atomic_files import printable_text, read_object
from worldsize.common.named_tuple import Any
from worldsize.common.numbers import bytes_text
from worldsize.service.runs.run import Run
from worldsize.state.exit_records import read_hosts
from worldsize.state.records import Status
from worldsize.state.summary import known_labels
from worldsize.store.output_files import output_files

_EXAMPLES = """examples:
  worldsize describe                          the latest run that was started from this directory
  worldsize describe 417k -o json"""
_DIGEST = 12
_INDENT = 14


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    add_run_argument(parser)
    add_output_option(parser)
    parser.set_defaults(act=describe)


def describe(options: argparse.Namespace) -> int:
    run = find_run(options.run)
    data = description(run, run.look())
    if options.output == "json":
        show_json(data)
        return 0
    for name, text in description_lines(data):
        first, *more = text.split("\n")
        show(f"{name:<{_INDENT}}{first}", *(" " * _INDENT + line for line in more))
    if data["outputs"]["files"]:
        report(f"worldsize outputs {run.id}")
    return 0


def description(run: Run, status: Status) -> dict[str, Any]:
    """Return all that is known about a run (identity, state, times, size, command, code, Python, outputs, notices) as
    the dictionary that `describe -o json` prints. For a run that is being prepared, or whose files are damaged, the
    unknown values are None."""
    record = read_object(run.paths.record)
    plan = run.plan if run.has_plan() else None
    labels = known_labels(plan.labels if plan else None)
    files = list(output_files(run.paths))
    data = {
        "id": run.id,
        "name": plan.name if plan else None,
        "state": status.state,
        "reason": status.reason,
        "exit_code": status.exit_code,
        "message": status.message,
        **labels,
        "created": plan.created if plan else None,
        "started": status.started,
        "ended": status.ended,
        "compute": plan.compute if plan else None,
        "nodes": len(plan.nodes) if plan else None,
        "ranks": plan.world_size if plan else None,
        "hosts": read_hosts(run.paths, [node.node_rank for node in plan.agents]) if plan else {},
        "framework": plan.framework if plan else None,
        "launcher": plan.launcher if plan else None,
        "rehearsal": rehearsal_text(plan).removeprefix(", ") if plan else "",
        "command": _command(record),
        "inputs": _job(record).get("inputs") or {},
        "user": record.get("user"),
        "host": record.get("host"),
        "cwd": record.get("cwd"),
        "worldsize": record.get("worldsize"),
        "code": {**_mapping(record, "code"), "files": len(_mapping(read_object(run.paths.manifest), "files"))},
        "git": record.get("git"),
        "python": _mapping(record, "python"),
        "environment": _job(record).get("environment"),
        "outputs": {"files": len(files), "bytes": sum(file.bytes for file in files), "path": run.paths.outputs},
        "notices": notices_data(run.paths, [node.node_rank for node in plan.agents] if plan else ()),
        "directory": run.directory,
    }
    return with_times(data)


def description_lines(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the rows that `describe` shows to users, as (name, text), from the `data` of `description`. Unknown values
    are left out."""
    state = data["state"] + (f" ({data['reason']})" if data["reason"] else "")
    if data["exit_code"] is not None:
        state += f", exit code {data['exit_code']}"
    python, git, outputs = data["python"], data["git"] or {}, data["outputs"]
    size = ""
    if data["nodes"]:
        size = f"{count_text(data['nodes'], 'node')}, {count_text(data['ranks'], 'rank')} on {data['compute']}"
    found = {
        "run": data["id"],
        "name": data["name"] or "",
        "state": state,
        "message": "" if data["exit_code"] == 0 else data["message"],
        "experiment": data["experiment_name"] or "",
        "description": data["description"] or "",
        "tags": tags_text(data["tags"]),
        "command": data["command"] or "",
        "inputs": "\n".join(f"{name}: {_input_text(value)}" for name, value in data["inputs"].items()),
        "size": size + (f" ({data['rehearsal']})" if data["rehearsal"] else ""),
        "hosts": "\n".join(f"node {node}: {host}" for node, host in data["hosts"].items()),
        "started by": _launcher_text(data),
        "made by": f"{data['user']} on {data['host']}, in {data['cwd']}" if data["user"] else "",
        "times": _times_text(data),
        "code": _code_text(data["code"], git),
        "python": _python_text(python),
        "packages": " ".join(f"{name}={version}" for name, version in _mapping(python, "packages").items()),
        "environment": str(data["environment"] or ""),
        "outputs": _files_text(outputs) if outputs["files"] else "",
        "notices": "\n".join(notice["text"] for notice in data["notices"]),
        "directory": data["directory"],
    }
    return [(name, _printable(text)) for name, text in found.items() if text]


def _printable(text: str) -> str:
    return "\n".join(map(printable_text, text.split("\n")))


def _launcher_text(data: Mapping[str, Any]) -> str:
    framework = data["framework"] if data["framework"] not in (None, "none") else "plain ranks"
    return f"{data['launcher']}, for {framework}" if data["launcher"] else ""


def _times_text(data: Mapping[str, Any]) -> str:
    lines = [f"{name} {time_text(data[name])}" for name in ("created", "started", "ended") if data[name] is not None]
    if data["started"] is not None and data["ended"] is not None:
        lines[-1] += f", after {duration_text(data['ended'] - data['started'])}"
    return "\n".join(lines)


def _python_text(python: Mapping[str, Any]) -> str:
    """Return the version and path of the Python that started the run, and on a second line the ranks' Python if it is
    known to be another."""
    text = " ".join(filter(None, [python.get("version"), python.get("executable")]))
    ranks, own = str(python.get("ranks") or ""), str(python.get("executable"))
    return f"{text}\nof the ranks: {ranks}" if os.path.dirname(ranks) not in ("", os.path.dirname(own)) else text


def _code_text(code: Mapping[str, Any], git: Mapping[str, Any]) -> str:
    if not code.get("digest"):
        return ""
    text = f"{count_text(code['files'], 'file')} of {code.get('directory')}, {str(code['digest'])[:_DIGEST]}"
    commit = git.get("commit") or git.get("sha")
    return text + (f", git {str(commit)[:_DIGEST]}" if commit else "")


def _files_text(outputs: Mapping[str, Any]) -> str:
    return f"{count_text(outputs['files'], 'file')}, {bytes_text(outputs['bytes'])}"


def _input_text(value: object) -> str:
    return str(value.get("path", value)) if isinstance(value, dict) else str(value)


def _command(record: Mapping[str, Any]) -> str | None:
    job = _job(record)
    words = job.get("argv")
    if isinstance(words, Sequence) and not isinstance(words, str) and words:
        return shlex.join(map(str, words))
    command = job.get("command")
    return str(command) if command else None


def _job(record: Mapping[str, Any]) -> Mapping[str, Any]:
    return _mapping(record, "job")


def _mapping(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the mapping at `key` of a run's record; an empty one if the key is missing or the value is something else,
    as in a damaged file."""
    found = value.get(key)
    return found if isinstance(found, dict) else {}
