"""The conversion of a configured compute to a table of a worldsize.toml, for the project of the self-test. Pure
functions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from worldsize.jobspec.config.config import ComputeSettings

_ELSEWHERE = ("name", "options", "runs_dir", "data_dir", "envs_dir")
"""Fields that are no keys of the table, and directories that the self-test replaces by its own."""


def table_of(settings: ComputeSettings, runs_dir: str | None) -> str:
    """Return the settings of a compute as the TOML table `[compute.NAME]`, with `runs_dir` as its directory of runs;
    None leaves the runs in the home directory."""
    fields = {name: value for name, value in settings._asdict().items() if name not in _ELSEWHERE}
    said = {name: value for name, value in fields.items() if value is not False and value not in (None, ())}
    keys = {**said, **settings.options, **({"runs_dir": runs_dir} if runs_dir else {})}
    lines = [f"{_text(key)} = {_value(value)}" for key, value in keys.items() if value is not None]
    return "\n".join([f"[compute.{_text(settings.name)}]", *lines, ""])


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Mapping):
        pairs = (f"{_text(str(key))} = {_value(each)}" for key, each in value.items() if each is not None)
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    return _text(str(value))


def _text(text: str) -> str:
    """Return `text` as a quoted basic string of TOML. It is written as in JSON, except for DEL, which TOML requires to
    be escaped; characters outside the basic plane are kept as they are."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
