"""Whether a value that was read from JSON has the types that its class declares. Another user's run directory may hold
anything, and so may a file that a failing disk has damaged.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Dict, List, Tuple, TypeVar

    Test = Callable[[Any], bool]
    Value = TypeVar("Value", bound=Tuple[Any, ...])

_LARGEST = 2.0**63
"""Of numbers: times, counts and codes are far below; JSON's have no bound, and no calculation of ours fits them."""

_tests: Dict[type, List[Tuple[str, str, Test]]] = {}


def check(value: Value) -> Value:
    """`value`, a named tuple. ValueError for the first field, also of named tuples in it, that is of another type than
    the class declares. Numbers are finite and below 2^63; a whole number may stand for a float."""
    kind = type(value)
    tests = _tests.get(kind)
    if tests is None:
        tests = _tests[kind] = [(name, said, _test(said)) for name, said in kind.__annotations__.items()]
    for (name, declared, test), each in zip(tests, value):
        if not test(each):
            raise ValueError("%s is %.60r, which is not %s" % (name, each, declared))
    return value


def _test(declared: str) -> Test:
    """For an annotation as this program writes them: `str | None`, `tuple[int, ...]`, `Mapping[str, str]`."""
    kinds = _top_level(declared)
    if len(kinds) > 1:
        tests = [_test(each) for each in kinds]
        return lambda value: any(test(value) for test in tests)
    name, _, inner = kinds[0].partition("[")
    if name in _SIMPLE:
        return _SIMPLE[name]
    if name == "tuple":
        of = _test(inner[: inner.rindex(",")])
        return lambda value: isinstance(value, tuple) and all(map(of, value))
    if name in ("Mapping", "dict"):
        to = _test(inner[inner.index(",") + 1 : -1].strip())
        return lambda value: isinstance(value, dict) and all(map(_is_text, value)) and all(map(to, value.values()))
    return lambda value: type(value).__name__ == name and check(value) is value


def _top_level(declared: str) -> List[str]:
    """The alternatives of an annotation; a `|` within brackets belongs to what is there."""
    found, depth, start = [], 0, 0
    for at, sign in enumerate(declared):
        depth += (sign == "[") - (sign == "]")
        if sign == "|" and depth == 0:
            found.append(declared[start:at].strip())
            start = at + 1
    return [*found, declared[start:].strip()]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_whole(value: Any) -> bool:
    return type(value) is int and -_LARGEST < value < _LARGEST


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and -_LARGEST < value < _LARGEST


_SIMPLE: Dict[str, Test] = {
    "str": _is_text,
    "int": _is_whole,
    "float": _is_number,
    "bool": lambda value: type(value) is bool,
    "None": lambda value: value is None,
    "Any": lambda value: True,
}
