"""Reader of job files."""

from __future__ import annotations

import os

from worldsize.common.atomic_files import read_file
from worldsize.errors import JobError
from worldsize.jobspec.job import LoadedJob
from worldsize.jobspec.paths import current_directory, printable_path
from worldsize.jobspec.reading.tree import YamlNode

MAX_BYTES = 8 << 20
_DESCRIPTOR_PATHS = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")


def load_job(path: str) -> LoadedJob:
    """Read the job file `path` and return the job with its warnings and line numbers. The paths in the job are made
    absolute against the file's directory.

    Raise JobError, which names every problem with file, line and key.
    """
    try:
        if os.path.isdir(path):
            raise JobError("a directory, not a job file", path)
        data = _read(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise JobError(f"cannot read the job file: {reason}", printable_path(path)) from None
    return parse_job(data, path)


def _read(path: str) -> bytes:
    """Return the content of the job file `path`, at most `MAX_BYTES` + 1 bytes. A descriptor that this process was
    given may be a file of any kind: `worldsize run <(make-job)`."""
    if path.startswith(_DESCRIPTOR_PATHS):
        with open(path, "rb") as file:
            return file.read(MAX_BYTES + 1)
    return read_file(path, MAX_BYTES + 1)


def parse_job(data: str | bytes, filename: str) -> LoadedJob:
    """Parse `data`, the YAML text of a job file, and return the job with its warnings and line numbers. `filename` is
    the name in messages, and relative paths start at its directory.

    Raise JobError, which names every problem with file, line and key.
    """
    from worldsize.jobspec.reading.job import read_job
    from worldsize.jobspec.reading.problems import Problems
    from worldsize.jobspec.reading.yaml import parse_yaml

    origin = printable_path(filename)
    node = parse_yaml(_decode(data, origin), origin)
    if node.value is None:
        raise JobError("the job file is empty", origin, "the least a job needs is a command:")
    base = "" if os.path.isabs(filename) else current_directory(origin)
    report = Problems(os.path.dirname(os.path.join(base, filename)))
    job = read_job(node, report, origin)
    report.check()
    lines: dict[str, int] = {}
    _collect_lines(node, "", lines)
    return LoadedJob(job, tuple(report.warnings), lines)


def _decode(data: str | bytes, origin: str) -> str:
    if len(data) > MAX_BYTES:
        raise JobError(f"larger than {MAX_BYTES} bytes, so not a job file", origin)
    if isinstance(data, str):
        text = data.removeprefix("\ufeff")
    else:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise JobError(f"not UTF-8 text (byte {error.start})", f"{origin}:{line}") from None
    if "\0" in text:
        raise JobError("a binary file, not a job file", origin)
    return text


def _collect_lines(node: YamlNode, path: str, lines: dict[str, int]) -> None:
    if not isinstance(node.value, dict):
        return
    for name, item in node.value.items():
        key = f"{path}.{name}" if path else name
        lines[key] = item.line
        _collect_lines(item, key, lines)
