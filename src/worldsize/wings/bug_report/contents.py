"""The contents of a report about a run: files of its directory, by name, with secrets masked and long files cut."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping

from worldsize.common.atomic_files import read_tail
from worldsize.common.named_tuple import Any
from worldsize.plan.run_paths import RunPaths
from worldsize.trust.secrets import mask_text, mask_tree, mask_values

LOG_BYTES = 64 << 10
"""The number of bytes to keep from the end of a log, or of another file of lines."""

RECORD_BYTES = 4 << 20
"""The maximum size of a record in bytes. A larger record is cut, and is then no valid JSON."""

RANKS_BYTES = 16 << 20
"""The maximum number of bytes of all ranks' logs together."""

_RECORDS = (
    "job.yml", "plan.json", "record.json", "environment.json", "handle.json", "submission.txt", "cancel.json",
    "result.json", "trial.json",
)  # fmt: skip
_LOGS = r"batch(?:-\d+)?\.log"
_OF_ATTEMPT: Mapping[str, str] = {
    "": r"(?:check|isolation|result|cancel)\.json",
    "events": r"node-\d+\.jsonl",
    "exit": r"node-\d+\.json",
    "errors": r"rank-\d+\.json",
    "facts": r"node-\d+\.json",
    "steps": r"step-\d+\.json",
    "logs": r"(?:[a-z_]+-\d+|conductor)\.log",
}
"""The names of the files of an attempt, by their directory. Rendezvous files and secrets are not among them."""

_SHOWN_VARIABLES = (
    "CONDA", "CUDA", "GLOO_", "HSA_", "LANG", "LC_", "LD_LIBRARY_PATH", "MASTER_", "NCCL_", "NVIDIA_", "OMP_", "PATH",
    "PYTHON", "ROCR_", "SHELL", "SLURM", "TERM", "TORCH", "VIRTUAL_ENV", "WORLDSIZE_",
)  # fmt: skip
_NOT_SHOWN = "(not in this report)"

Redact = Callable[[Any], Any]


def redactor(secrets: list[str], home: str) -> Redact:
    """Return a function that masks secrets for a bug report in a text or in a JSON value: the texts in `secrets`, and
    everything that looks like a secret by its name or shape. The function also writes `~` for `home`, the user's home.
    """

    def redact(value: Any) -> Any:
        known = mask_values(value, secrets)
        return _without_home(mask_text(known) if isinstance(known, str) else mask_tree(known), home)

    return redact


def _without_home(value: Any, home: str) -> Any:
    if isinstance(value, str):
        return re.sub(re.escape(home) + r"(?![\w.-])", "~", value) if len(home) > 1 else value
    if isinstance(value, Mapping):
        return {key: _without_home(item, home) for key, item in value.items()}
    return [_without_home(item, home) for item in value] if isinstance(value, (list, tuple)) else value


def run_files(paths: RunPaths) -> Iterator[tuple[str, int]]:
    """Yield the names of the files in a run's directory that a bug report may contain, relative to that directory, each
    with the number of bytes to keep from its end."""
    yield from ((name, RECORD_BYTES) for name in _RECORDS)
    yield from ((name, LOG_BYTES) for name in _names(paths.root, _LOGS))
    for attempt in _names(paths.root, r"attempt-\d+"):
        for directory, pattern in _OF_ATTEMPT.items():
            place = os.path.join(attempt, directory) if directory else attempt
            found = _names(os.path.join(paths.root, place), pattern)
            ranks = sum(name.startswith("rank-") for name in found)
            each = min(LOG_BYTES, RANKS_BYTES // max(ranks, 1))
            for name in found:
                is_rank = directory == "logs" and name.startswith("rank-")
                yield os.path.join(place, name), each if is_rank else LOG_BYTES


def _names(directory: str, pattern: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(directory) if re.fullmatch(pattern, name))
    except OSError:
        return []


def read_redacted(root: str, name: str, most: int, redact: Redact) -> str:
    """Return the end of the file `name` in the run's directory `root`, at most `most` bytes, with secrets masked by
    `redact`; "" if the file does not exist or cannot be read."""
    data = read_tail(os.path.join(root, name), most + 1)
    text = data[-most:].decode("utf-8", "replace")
    if len(data) > most:
        whole = text.partition("\n")[2]  # a part of a secret cannot be recognised by its shape
        return f"(the last {most} bytes)\n{redact(whole)}"
    if name.endswith(".json") and text:
        value = _parse(text)
        return (
            json.dumps(redact(_without_variables(name, value)), indent=1) + "\n" if value is not None else redact(text)
        )
    if name.endswith(".jsonl"):
        return "".join(_redacted_line(line, redact) + "\n" for line in text.splitlines())
    return str(redact(text))


def _redacted_line(line: str, redact: Redact) -> str:
    value = _parse(line)
    return json.dumps(redact(value)) if value is not None else str(redact(line))


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _without_variables(name: str, value: Any) -> Any:
    """Return `value`, the content of the run's file `name`, unchanged, or for `record.json` without the values of the
    user's private environment variables."""
    environment = value.get("environment") if name == "record.json" and isinstance(value, dict) else None
    if not isinstance(environment, dict):
        return value
    shown = {key: text if key.startswith(_SHOWN_VARIABLES) else _NOT_SHOWN for key, text in environment.items()}
    return {**value, "environment": shown}
