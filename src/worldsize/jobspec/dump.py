"""Writer of a job as YAML text. It uses no YAML library: every submission writes one job, and the import of a library
takes longer."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from worldsize.jobspec.job import Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_/${}.+*- ")
_PLAIN_FIRST = _PLAIN - frozenset("0123456789{}.+*- ")
_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
_LONGEST_KEY = 1000


def job_tree(job: Job) -> dict[str, Any]:
    """Return the keys of `job` that differ from their defaults, as a dictionary of plain values with the structure of a
    job file."""
    tree = _non_default_values(job)
    tree.pop("source", None)
    tree.pop("batch_source", None)
    if job.batch_script is not None:
        tree.update(_script_values(job))
    tree.pop("command" if job.argv else "argv", None)
    return tree


def _script_values(job: Job) -> dict[str, Any]:
    """Return the keys of a job with a batch script that the script may set too (code, name, count, resources,
    distribution), in full. If such a key were missing in the written job, reading the job again would take its value
    from the script."""
    from worldsize.jobspec.distribution import processes_per_instance

    distribution = _plain_value(job.distribution) if job.distribution else {"type": "none"}
    processes = processes_per_instance(job.distribution)
    if processes is not None:
        distribution["process_count_per_instance"] = processes
    return {
        **{name: getattr(job, name) for name in ("code", "display_name", "count", "at_once")},
        "resources": {"instance_count": job.resources.instance_count, **_plain_value(job.resources)},
        "distribution": distribution,
    }


def _non_default_values(value: Any) -> dict[str, Any]:
    defaults = value._field_defaults
    tree = {}
    for name, item in value._asdict().items():
        if item != defaults[name] or type(item) is not type(defaults[name]):
            tree[name] = _plain_value(item)
    return tree


def _plain_value(value: Any) -> Any:
    if hasattr(value, "_field_defaults"):
        tree = _non_default_values(value)
        return {"type": value.type, **tree} if hasattr(value, "type") else tree
    if isinstance(value, Mapping):
        return {name: _plain_value(item) for name, item in value.items()}
    return [_plain_value(item) for item in value] if isinstance(value, (list, tuple)) else value


def dump_job(job: Job) -> str:
    """Return the job as the YAML text of a job file, which `parse_job` reads back as an equal job, except for its
    `source`."""
    return dump_tree(job_tree(job))


def dump_tree(tree: Mapping[str, Any]) -> str:
    """Return the keys and values of a job, as `job_tree` returns them, as YAML text."""
    lines: list[str] = []
    _write_mapping(tree, "", lines)
    return "\n".join(lines) + "\n"


def _write_mapping(tree: Mapping[str, Any], indent: str, lines: list[str]) -> None:
    for name, value in tree.items():
        key = _text(name)
        if len(key) > _LONGEST_KEY:
            lines.append(indent + "? " + key)
            key = ""
        _write(indent + key + ":", value, indent + "  ", lines)


def _write(head: str, value: Any, indent: str, lines: list[str]) -> None:
    if isinstance(value, dict) and value:
        lines.append(head)
        _write_mapping(value, indent, lines)
    elif isinstance(value, list) and value:
        lines.append(head)
        for item in value:
            _write(indent + "-", item, indent + "  ", lines)
    elif isinstance(value, str) and _is_block(value):
        lines.append(head + " |" + ("" if value.endswith("\n") else "-"))
        lines.extend(indent + line if line else "" for line in value.removesuffix("\n").split("\n"))
    else:
        lines.append(f"{head} {_scalar(value)}")


def _is_block(text: str) -> bool:
    """Return whether a YAML literal block (`|`) can represent `text` exactly: it has several printable lines, and no
    blanks at its start or end."""
    body = text.removesuffix("\n")
    return "\n" in body and body == body.strip() and all(line.isprintable() for line in body.split("\n"))


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    return _float(value) if isinstance(value, float) else json.dumps(value)


def _float(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    text = repr(value)
    if "e" not in text:
        return text
    mantissa, exponent = text.split("e")
    sign = "" if exponent[0] in "+-" else "+"
    return "{}{}e{}{}".format(mantissa, "" if "." in mantissa else ".0", sign, exponent)


def _text(text: str) -> str:
    if _is_plain(text):
        return text
    return '"{}"'.format("".join([c if c.isprintable() and c not in '"\\' else _escape(c) for c in text]))


def _is_plain(text: str) -> bool:
    """Return whether `text` can be written in YAML without quotes, because YAML would read it as the same text and not
    as a number, boolean or other value."""
    return (
        text[:1] in _PLAIN_FIRST
        and _PLAIN.issuperset(text)
        and text.lower() not in _WORDS
        and not text.endswith(" ")
        and "  " not in text
    )


def _escape(character: str) -> str:
    code = ord(character)
    if character in '"\\':
        return "\\" + character
    if character == "\n":
        return "\\n"
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
