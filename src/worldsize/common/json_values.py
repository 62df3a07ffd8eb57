"""Checked values from JSON: of the expected class, of the types that the class declares, and of a known format. The run
directory of another user may contain anything, and so may a file that a failing disk has damaged.

A newer release adds keys to its records, and further values at the end of a list. These are ignored. If they would
change the meaning of the other values, the release increases the `version`.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import errno
import json
import sys

from worldsize.common.atomic_files import read_file
from worldsize.errors import DamagedRun, NewerFormat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Test = Callable[[Any], bool]
    Maker = Callable[[Any], Any]
    Made = TypeVar("Made")
    Value = TypeVar("Value", bound=tuple[Any, ...])

_LARGEST = 2.0**63
"""The limit of numbers. Times, counts and codes are far below it. Numbers in JSON have no bound, and would overflow in
calculations."""

PARSE_ERRORS = (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError)
"""The exceptions that a function may raise if a record that it reads is damaged."""

_NO_RECORD = frozenset((errno.EISDIR, errno.EINVAL, errno.ELOOP, errno.EFBIG, errno.ENXIO))
"""The errors of a file that something else has replaced."""

_UPDATE_HINT = "update worldsize here: pip install --upgrade worldsize"
_REPAIR_HINT = "put a copy of the file there, or remove the run: worldsize rm RUN"

_makers: dict[type, list[tuple[str, Maker]]] = {}
_tests: dict[type, list[tuple[str, str, Test]]] = {}


def read_record(path: str, parse: Callable[[Any], Made]) -> Made | None:
    """Read the JSON file `path` and return what `parse` makes of its value; None if there is no file. Raise DamagedRun,
    which names the file, if it contains something else, or if `parse` raises one of PARSE_ERRORS. Raise OSError if it
    cannot be read."""
    try:
        return parse(json.loads(read_file(path)))
    except FileNotFoundError:
        return None
    except PARSE_ERRORS as error:
        raise _damage_of(path, error) from None
    except OSError as error:
        if error.errno not in _NO_RECORD:
            raise
        raise _damage_of(path, error) from None


def _damage_of(path: str, error: Exception) -> DamagedRun:
    if isinstance(error, NewerFormat):
        return NewerFormat(error.what, path, error.hint)
    if isinstance(error, OSError):
        why = error.strerror or str(error)
    elif isinstance(error, RecursionError):
        why = "it is nested too deep"
    else:
        why = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
    return DamagedRun(f"cannot be understood: {why}", path, _REPAIR_HINT)


def tuple_of(kind: type[Value], value: Any) -> Value:
    """Make a named tuple of the class `kind` from a JSON object, or from the list of its values, with the tuples and
    named tuples that its class declares. Additions of a newer release are ignored. Raise ValueError for another value;
    raise TypeError if the value of a field is missing."""
    names: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    if isinstance(value, dict):
        made: Any = kind(**{name: value[name] for name in names if name in value})
    elif isinstance(value, (list, tuple)):
        made = kind(*value[: len(names)])
    else:
        raise ValueError(f"{value!r:.60} is no {kind.__name__}")
    makers = _makers_of(kind)
    whole: Value = made._replace(**{name: make(getattr(made, name)) for name, make in makers}) if makers else made
    return whole


def _makers_of(kind: type[Any]) -> list[tuple[str, Maker]]:
    """Return (name, function) for each field of the named tuple class `kind` that JSON contains in another form; the
    function makes the field's value from the JSON value."""
    makers = _makers.get(kind)
    if makers is None:
        # If typing has made an object of an annotation, the object contains the annotation's text.
        said = {name: str(getattr(each, "__forward_arg__", each)) for name, each in kind.__annotations__.items()}
        found = ((name, _maker_of(declared, kind.__module__)) for name, declared in said.items())
        makers = _makers[kind] = [(name, make) for name, make in found if make is not None]
    return makers


def _maker_of(declared: str, module: str) -> Maker | None:
    """Return the function that makes the value of a named tuple's field with the annotation `declared`, in a form that
    `_test_of` knows, from its JSON value; None if the JSON value is used unchanged."""
    if declared.startswith("tuple["):
        make = _maker_of(declared[len("tuple[") : declared.rindex(",")], module)
        return lambda value: tuple(value if make is None else map(make, value))
    inner: Any = getattr(sys.modules[module], declared.partition(" ")[0], None)
    if not hasattr(inner, "_fields"):
        return None
    return lambda value: tuple_of(inner, value) if value else None


def refuse_newer(value: dict[str, Any], known: int, path: str | None = None) -> None:
    """Raise NewerFormat if the `version` in the JSON object `value` is higher than `known`, so that a newer release has
    written the file `path`."""
    version = value.get("version")
    if type(version) is int and version > known:
        raise NewerFormat(
            f"a newer worldsize wrote it (version {version!s:.20} of the format; this one reads {known})",
            path,
            _UPDATE_HINT,
        )


def require_version(value: Any, known: int, what: str) -> None:
    """Raise ValueError unless `value` is a JSON object whose `version` is `known`; its message names the object `what`.
    Raise NewerFormat if the version is higher."""
    if isinstance(value, dict):
        refuse_newer(value, known)
    version = value.get("version") if isinstance(value, dict) else None
    if type(version) is not int or version != known:
        raise ValueError(f"it is no {what}: its version is {version!r:.60}")


def check_fields(value: Value) -> Value:
    """Check `value`, a named tuple, and return it. Raise ValueError for the first field, also of named tuples in it,
    whose type differs from the declared one. Numbers must be finite and below 2^63. An integer is accepted as a float.
    """
    kind = type(value)
    tests = _tests.get(kind)
    if tests is None:
        tests = _tests[kind] = [(name, said, _test_of(said)) for name, said in kind.__annotations__.items()]
    for (name, declared, test), each in zip(tests, value):
        if not test(each):
            raise ValueError(f"{name} is {each!r:.60}, which is not {declared}")
    return value


def _test_of(declared: str) -> Test:
    """Return a function that tests whether a value has the type of the annotation `declared`, in the forms that
    worldsize uses: `str | None`, `tuple[int, ...]`, `Mapping[str, str]`, or the name of a named tuple."""
    kinds = _alternatives(declared)
    if len(kinds) == 2:  # the most frequent case: faster than the general one
        one, other = map(_test_of, kinds)
        return lambda value: one(value) or other(value)
    if len(kinds) > 2:
        tests = [_test_of(each) for each in kinds]
        return lambda value: any(test(value) for test in tests)
    name, _, inner = kinds[0].partition("[")
    if name in _SIMPLE:
        return _SIMPLE[name]
    if name == "tuple":
        of = _test_of(inner[: inner.rindex(",")])
        return lambda value: isinstance(value, tuple) and all(map(of, value))
    if name in ("Mapping", "dict"):
        to = _test_of(inner[inner.index(",") + 1 : -1].strip())
        return lambda value: isinstance(value, dict) and all(map(_is_text, value)) and all(map(to, value.values()))
    return lambda value: type(value).__name__ == name and check_fields(value) is value


def _alternatives(declared: str) -> list[str]:
    """Split an annotation at each `|`, and return the alternatives: ["str", "None"] for `str | None`. A `|` within
    brackets belongs to the content of the brackets."""
    found, depth, start = [], 0, 0
    for at, sign in enumerate(declared):
        depth += (sign == "[") - (sign == "]")
        if sign == "|" and depth == 0:
            found.append(declared[start:at].strip())
            start = at + 1
    return [*found, declared[start:].strip()]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and -_LARGEST < value < _LARGEST


_SIMPLE: dict[str, Test] = {
    "str": _is_text,
    "int": lambda value: type(value) is int and -_LARGEST < value < _LARGEST,
    "float": is_number,
    "bool": lambda value: type(value) is bool,
    "None": lambda value: value is None,
    "Any": lambda value: True,
}
