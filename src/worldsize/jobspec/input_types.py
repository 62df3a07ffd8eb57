"""Rules for the values of an input: its type, its minimum and maximum, and the texts that it allows.

A component declares the rules. A job keeps them, so that they also apply to `--set` and to a matrix. All functions are
pure.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

from worldsize.jobspec.job import Input, InputType, InputValue, Job, Literal
from worldsize.jobspec.paths import absolute_path, is_remote

_NAMES = {"integer": "a whole number", "number": "a number", "boolean": "true or false", "string": "text"}


def is_value_type(kind: InputType) -> bool:
    """Return whether an input declared as `kind` accepts values (text, numbers, booleans) rather than data with a
    path."""
    return kind.type in _NAMES


def typed_value(kind: InputType, value: Literal) -> Literal:
    """Return `value`, the value of an input, converted to the declared type `kind`: 1 is 1.0 for a number, "3" is 3 for
    an integer, as Azure's client reads it.

    Raise ValueError, which states the problem, if the value is not of the type, or not allowed.
    """
    found = _converted(kind.type, value)
    if found is None:
        raise ValueError(f"is {value!r:.60}, must be {_NAMES[kind.type]}")
    if isinstance(found, (int, float)) and not isinstance(found, bool):
        if kind.min is not None and found < kind.min:
            raise ValueError(f"is {found!r:.60}, must be at least {kind.min:g}")
        if kind.max is not None and found > kind.max:
            raise ValueError(f"is {found!r:.60}, must be at most {kind.max:g}")
    if kind.enum and str(found) not in kind.enum:
        raise ValueError(f"is {str(found)!r:.60}, must be one of: {', '.join(kind.enum)}")
    return found


def _converted(name: str, value: Literal) -> Literal | None:
    if name == "string":
        return str(value)
    if name == "boolean":
        text = str(value).lower()
        return text == "true" if text in ("true", "false") else None
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(number):
        return None
    if name == "number":
        return number
    return int(value) if isinstance(value, int) else int(number) if number.is_integer() else None


def with_types(kind: InputType, value: InputValue, base: str) -> InputValue:
    """Convert `value`, an input's value in a file or in `--set`, to the input's declared type `kind` and return it. If
    data are declared, text is the path of data, relative to `base`, and becomes an Input. A value that is not of its
    type is returned unchanged, and `input_problems` reports it."""
    if is_value_type(kind):
        if isinstance(value, Input):
            return value
        try:
            return typed_value(kind, value)
        except ValueError:
            return value
    if isinstance(value, str):
        value = Input(path=absolute_path(value, base))
    if isinstance(value, Input) and value.path is not None:
        mode, text = value.mode or kind.mode, value.description or kind.description
        return value._replace(type=_data_type(kind, value.path), mode=mode, description=text)
    return value


def _data_type(kind: InputType, path: str) -> str:
    """Return the type of the data at `path` for an input declared as `kind`, such as "uri_folder". Azure's older type
    `path` means a file or a directory, depending on which exists."""
    if kind.type != "path":
        return kind.type
    return "uri_file" if not is_remote(path) and os.path.isfile(path) else "uri_folder"


def input_problems(job: Job) -> Iterator[tuple[str, str, str]]:
    """Check the values of the inputs for which the job declares a type, also those in its matrix, and yield each
    problem as a tuple of three texts: the key, the problem and a hint."""
    for name, kind in job.input_types.items():
        key = f"inputs.{name}"
        value = job.inputs.get(name)
        if name in job.matrix:
            for index, each in enumerate(job.matrix[name]):
                for what in _value_problem(kind, each):
                    yield f"matrix.{name}[{index}]", what, _hint(name, kind)
        elif value is None or (isinstance(value, Input) and value.path is None):
            if not kind.optional:
                yield key, "has no value", f"use {_hint(name, kind)}"
        else:
            for what in _value_problem(kind, value):
                yield key, what, _hint(name, kind)


def _value_problem(kind: InputType, value: InputValue) -> Iterator[str]:
    if isinstance(value, Input) != (not is_value_type(kind)):
        yield f"must be {_NAMES.get(kind.type, kind.type + ', with a path')}"
    elif not isinstance(value, Input):
        try:
            typed_value(kind, value)
        except ValueError as error:
            yield str(error)


def _hint(name: str, kind: InputType) -> str:
    """Return the command-line option that sets the input `name`, as a hint for the user: `--set
    inputs.epochs=INTEGER`."""
    what = "|".join(kind.enum) if kind.enum else kind.type.upper() if is_value_type(kind) else "PATH"
    return f"--set inputs.{name}={what:.100}"
