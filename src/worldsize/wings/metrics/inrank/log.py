"""The function `worldsize.log(step=…, loss=…)` for scripts.

The values of a rank become lines of `attempt-N/metrics/rank-00000.jsonl` in its run directory, written by a thread
about once a second. Outside a run, nothing is kept.

Standard library only; runs in any Python that the rank has.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, SupportsFloat, Tuple, Union

from worldsize.wings.metrics.inrank.log_file import LogFile

MOST_VALUES, LONGEST_NAME = 256, 256
"""The most values of one call, and the most characters of a name; the excess is left out."""

Number = Union[float, Callable[[], float]]
"""A number, or a function that a thread calls to get it from a device."""

_KEPT_AS_THEY_ARE = ("jax", "jaxlib", "tensorflow")
"""Packages whose tensors cannot be changed. Their tensors are read later, since reading one waits for its device."""

_file: Optional[LogFile] = None
_is_started = False
_told: List[str] = []


def log(
    *positional: Union[Mapping[str, SupportsFloat], SupportsFloat],
    step: Optional[SupportsFloat] = None,
    **values: SupportsFloat,
) -> None:
    """Log values of this rank at a step of its training: `log(step=10, loss=loss)`, or `log({"train/loss": loss},
    step=10)` for names that are no identifiers.

    The step may come first, too: `log(10, {"loss": loss})`. A value is any object with one number: Python's, NumPy's,
    or a tensor with one element on any device. A value that is no number is left out, and the first such name is
    reported on stderr. Never raises, and never waits for a disk or a GPU. Values of the last second are lost if the
    process is killed.
    """
    try:
        file = _file if _is_started else _start()
        if file is not None:
            found, at = _split(positional, step, values)
            _log(file, found, at)
    except Exception as error:  # noqa: BLE001  a training must not end because a value cannot be logged
        _tell("error", f"logging is off: {type(error).__name__}")


def _split(positional: Tuple[Any, ...], step: Any, values: Dict[str, Any]) -> Tuple[Mapping[Any, Any], Any]:
    """Return the values, by name, and the step of one call of `worldsize.log`. The step, and mappings of values, may be
    positional arguments of the call."""
    if not positional:
        return values, step
    found: Dict[Any, Any] = {}
    for each in positional:
        if hasattr(each, "items"):
            found.update(each)
        elif step is None:
            step = each
    found.update(values)
    return found, step


def _log(file: LogFile, values: Mapping[Any, Any], step: Any) -> None:
    now = time.time()
    found: List[Tuple[str, Number]] = []
    for name, value in values.items():
        number = value if type(value) is float else number_of(value)
        text = str(name)[:LONGEST_NAME]
        if number is None:
            _tell("value", f"{text!r} is left out: a {type(value).__name__} is not a number")
        elif len(found) < MOST_VALUES:
            found.append((text, number))
        else:
            _tell("count", f"{text!r} is left out: one call logs at most {MOST_VALUES} values")
    if found:
        file.add((now, step if step is None or type(step) is int else number_of(step), found))


def number_of(value: Any) -> Optional[Number]:
    """Return the number of a logged `value` (Python's, NumPy's, or a tensor with one element), or a function that
    returns it later if getting it now would wait for a device. None if the value is no number."""
    if isinstance(value, (int, float)):
        return _converted(float, value)
    if isinstance(value, (str, bytes, bytearray)) or value is None:
        return None  # float() would parse text
    if any(length != 1 for length in getattr(value, "shape", None) or ()):
        return None
    if type(value).__module__.partition(".")[0] in _KEPT_AS_THEY_ARE:
        return lambda: float(value.item() if hasattr(value, "item") else value)
    if hasattr(value, "detach") and hasattr(value, "device"):
        return _converted(_number_of_tensor, value)
    if hasattr(value, "item"):
        return _converted(lambda each: float(each.item()), value)
    return _converted(float, value) if hasattr(value, "__float__") else None


def _converted(convert: Callable[[Any], Optional[Number]], value: Any) -> Optional[Number]:
    try:
        return convert(value)
    except Exception:  # noqa: BLE001  conversions are foreign code: if one fails, the value is not a number
        return None


def _number_of_tensor(tensor: Any) -> Optional[Number]:
    """Return the number of a PyTorch tensor, or a function that returns it later. A tensor on a CPU is read at once,
    since scripts change tensors in place. For any other device, a copy is started, which waits for nothing. None for a
    tensor that is a part of a number: the parts of the other ranks would be needed."""
    if not all(each.is_replicate() for each in getattr(tensor, "placements", ())):
        return None
    if hasattr(tensor, "to_local"):
        tensor = tensor.to_local()
    tensor = tensor.detach()
    if tensor.device.type == "cpu":
        return float(tensor.item())
    if tensor.device.type != "cuda":
        copy = tensor.clone()
        return lambda: float(copy.item())
    event = sys.modules["torch"].cuda.Event(blocking=True)
    copy = tensor.to("cpu", non_blocking=True)  # into pinned memory, on the stream that computes the value
    event.record(sys.modules["torch"].cuda.current_stream(tensor.device))
    return lambda: _after(event, copy)


def _after(event: Any, copy: Any) -> float:
    event.synchronize()
    return float(copy.item())


def _start() -> Optional[LogFile]:
    """Return the file to which `worldsize.log` writes the values of this rank, creating its object; None outside a
    run."""
    global _file, _is_started
    root = os.environ.get("WORLDSIZE_RUN_DIR")
    if root:
        attempt = os.environ.get("WORLDSIZE_ATTEMPT") or "0"
        rank = int(os.environ.get("WORLDSIZE_RANK") or "0")
        _file = LogFile(os.path.join(root, "attempt-" + attempt, "metrics", f"rank-{rank:05d}.jsonl"), _tell)
    _is_started = True
    return _file


def _tell(what: str, text: str) -> None:
    """Write a message of `worldsize.log` to stderr, but only the first of each kind `what`."""
    if what in _told:
        return
    _told.append(what)
    try:
        sys.stderr.write(f"worldsize.log: {text}\n")
    except Exception:  # noqa: BLE001  a script may have replaced stderr by any object
        pass
