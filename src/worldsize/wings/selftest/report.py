"""The report of a self-test: a JSON document, and the same content as Markdown for people. Its texts are redacted. If a
secret remains in it, nothing is written."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from worldsize.common.named_tuple import NamedTuple
from worldsize.errors import StorageError
from worldsize.wings.selftest.redact import Known, leaks, redact

VERSION = 1
OUTCOMES = ("passed", "failed", "skipped", "not run")
_NAMES = {"file_system": "file system of the runs", "mpi": "MPI"}


class Verdict(NamedTuple):
    """The result of a test: its name, its outcome (one of OUTCOMES), its duration in seconds, and the reason why it did
    not pass."""

    name: str
    outcome: str
    seconds: float = 0.0
    reason: str = ""


def make_report(
    compute: Mapping[str, Any], versions: Mapping[str, str], results: Sequence[Verdict], known: Known, **more: Any
) -> dict[str, Any]:
    """Return the report of a self-test as a JSON object with the compute, the versions, the counts and the tests, those
    that failed first; `more` contains further keys. Texts from other sources (versions, reasons, the compute's name,
    the note) are redacted."""
    names: dict[str, str] = {}
    order = {outcome: number for number, outcome in enumerate(("failed", "not run", "skipped", "passed"))}
    counts = Counter(result.outcome for result in results)
    return {
        "selftest": VERSION,
        "compute": {key: _clean(value, known, names) for key, value in compute.items()},
        **{key: _clean(value, known, names) for key, value in more.items()},
        "versions": {key: redact(value, known, names) for key, value in versions.items() if value},
        "counts": {outcome: counts[outcome] for outcome in OUTCOMES},
        "tests": [
            {**result._asdict(), "reason": redact(result.reason, known, names)}
            for result in sorted(results, key=lambda each: order.get(each.outcome, 0))
        ],
    }


def _clean(value: Any, known: Known, names: dict[str, str]) -> Any:
    if isinstance(value, list):
        return [_clean(each, known, names) for each in value]
    return redact(value, known, names) if isinstance(value, str) else value


def leaks_of(report: Mapping[str, Any], known: Known) -> list[str]:
    """Return the kinds of secrets that the texts of a self-test's report still contain, sorted; an empty list if there
    are none."""
    return sorted({kind for text in _texts(report) for kind in leaks(text, known)})


def _texts(report: Mapping[str, Any]) -> list[str]:
    parts = [*report["compute"].values(), *report["versions"].values()]
    parts += [each["reason"] for each in report["tests"]]
    for key in set(report) - {"compute", "versions", "tests", "counts"}:
        parts += report[key] if isinstance(report[key], list) else [report[key]]
    return [text for text in parts if isinstance(text, str)]


def as_markdown(report: Mapping[str, Any]) -> str:
    """Return the report of a self-test as Markdown text, for people."""
    compute, counts = report["compute"], report["counts"]
    kind = "simulated" if compute["simulated"] else "real"
    lines = [f"# Self-test of {compute['name']} ({compute['type']}, {kind}), {report['date']}", ""]
    lines += [report["note"], ""] if report["note"] else []
    summary = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES)
    left = ", ".join(report["left_behind"]) or "nothing"
    lines.append(f"{summary}, in {report['seconds']} s on at most {report['nodes']} nodes. Left behind: {left}.")
    lines += ["", "| | |", "| --- | --- |"]
    lines += [f"| {_NAMES.get(name, name)} | {_cell(value)} |" for name, value in report["versions"].items()]
    for outcome in ("failed", "not run", "skipped"):
        lines += _section(outcome, [each for each in report["tests"] if each["outcome"] == outcome])
    lines += ["", "## passed", "", "| test | seconds |", "| --- | --- |"]
    passed = [each for each in report["tests"] if each["outcome"] == "passed"]
    lines += [f"| `{_cell(each['name'])}` | {each['seconds']} |" for each in passed]
    return "\n".join(lines) + "\n"


def _section(title: str, tests: Sequence[Mapping[str, Any]]) -> list[str]:
    if not tests:
        return []
    rows = [f"| `{_cell(each['name'])}` | {_cell(each['reason'])} |" for each in tests]
    return ["", f"## {title}", "", "| test | why |", "| --- | --- |", *rows]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def write_report(report: Mapping[str, Any], known: Known, directory: str) -> list[str]:
    """Write the report of a self-test to `selftest-NAME-DATE.json` and `.md` in `directory`. Return their paths. Raise
    StorageError if a secret is left in the report, with the kind of secret; then nothing is written. Raise StorageError
    if the files cannot be written."""
    left = leaks_of(report, known)
    if left:
        raise StorageError(f"the report is not written, since it would disclose: {', '.join(left)}")
    base = os.path.join(directory, f"selftest-{_file_name(report['compute']['name'])}-{report['date']}")
    texts = {".json": json.dumps(report, indent=1, ensure_ascii=False) + "\n", ".md": as_markdown(report)}
    try:
        for ending, text in texts.items():
            with open(base + ending, "w", encoding="utf-8", errors="backslashreplace", opener=_open_no_link) as file:
                file.write(text)
    except OSError as error:
        raise StorageError(f"cannot write the report: {error.strerror}", base) from None
    return [base + ending for ending in texts]


def _open_no_link(path: str, flags: int) -> int:
    """Open the file `path` for the report, without following a link of this name, and return its descriptor: the
    directory may be writable for other users, whose link may lead anywhere."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def _file_name(name: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "-_" else "-" for sign in name)
