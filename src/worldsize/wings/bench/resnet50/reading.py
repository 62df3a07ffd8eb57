"""Reader of the first rank's report, as a measurement. The file belongs to a run, so its content may be anything."""

from __future__ import annotations

import json
from statistics import median

from worldsize.common.atomic_files import read_file
from worldsize.common.json_values import PARSE_ERRORS, is_number, require_version
from worldsize.common.named_tuple import Any
from worldsize.errors import WorldsizeError
from worldsize.wings.bench.result import Measurement
from worldsize.wings.bench.worlds import World

VERSION = 1
_MOST_BYTES = 1 << 20
_MOST_BLOCKS = 1000
_LONGEST_TEXT = 200
_MOST_ROWS = 20
_COUNTS = ("batch", "parameters", "gpus", "image_size", "steps", "warmup", "workers", "width")
_TEXTS = ("framework", "device", "precision", "tf32", "data")


def read_measurement(path: str, world: World) -> Measurement:
    """Read the ResNet-50 benchmark's report at `path` and return the measurement of `world`, with the rate of each
    block of steps and their median. Raise WorldsizeError, in one sentence, if the file does not exist or is not a
    measurement of this world."""
    try:
        content = read_file(path, _MOST_BYTES + 1)
    except OSError as error:
        raise WorldsizeError(f"its ranks have left no measurement: {error.strerror}", path) from None
    try:
        return parse_measurement(content, world)
    except PARSE_ERRORS as error:
        why = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise WorldsizeError(f"is not a measurement: {why:.200}", path) from None


def parse_measurement(content: bytes, world: World) -> Measurement:
    """Parse `content`, the ResNet-50 benchmark's report as JSON, and return the measurement. Raise one of PARSE_ERRORS
    if it is not a measurement of this world."""
    if len(content) > _MOST_BYTES:
        raise ValueError("it is too large")
    found = json.loads(content)
    require_version(found, VERSION, "measurement")
    ranks = _count(found, "ranks")
    if ranks != world.ranks:
        raise ValueError(f"{ranks} ranks have taken part, and {world} has {world.ranks}")
    seconds, steps, batch = _numbers(found, "block_seconds"), _numbers(found, "block_steps"), _count(found, "batch")
    if len(seconds) != len(steps):
        raise ValueError("blocks and their steps differ in number")
    rates = tuple(ranks * batch * count / time for time, count in zip(seconds, steps, strict=True))
    return Measurement(
        world,
        rate=median(rates),
        rates=rates,
        gpus=_count(found, "gpus", least=0),
        communication=_share(found.get("communication")),
        details=_details(found, sum(seconds) / sum(steps)),
    )


def _details(found: dict[str, Any], step_seconds: float) -> dict[str, Any]:
    """Return the details of a ResNet-50 measurement from `found`, the parsed report: counts, short texts, and the
    software that the ranks have loaded."""
    details: dict[str, Any] = {"step_seconds": step_seconds}
    details.update({name: _count(found, name, least=0) for name in _COUNTS if name in found})
    details.update({name: _text(found[name]) for name in _TEXTS if name in found})
    if found.get("threads") is not None:
        details["threads"] = _count(found, "threads")
    if is_number(found.get("loss")):
        details["loss"] = float(found["loss"])
    software = found.get("software", {})
    rows = list(software.items())[:_MOST_ROWS]
    details["software"] = {_text(name): _text(value) for name, value in rows}
    return details


def _count(found: dict[str, Any], name: str, least: int = 1) -> int:
    value = found[name]
    if type(value) is not int or not least <= value < 1 << 53:
        raise ValueError(f"{name} is {value!r:.40}")
    return value


def _numbers(found: dict[str, Any], name: str) -> list[float]:
    values = found[name]
    if type(values) is not list or not 0 < len(values) <= _MOST_BLOCKS:
        raise ValueError(f"{name} is not a list of numbers")
    for value in values:
        if not is_number(value) or not 1e-9 < value < 1e9:
            raise ValueError(f"{name} contains {value!r:.40}")
    return values


def _share(value: Any) -> float | None:
    if value is None:
        return None
    if not is_number(value) or not 0 <= value <= 1:
        raise ValueError(f"communication is {value!r:.40}")
    return float(value)


def _text(value: Any) -> str:
    """Check that `value` is one line of text of reasonable length, and return it. Raise ValueError if it is not."""
    if type(value) is not str or len(value) > _LONGEST_TEXT or not value.isprintable():
        raise ValueError(f"{value!r:.40} is not text")
    return value
