"""Our named tuples are typing's in all that can be seen of them, and cost the agent no import of typing."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import typing
from collections.abc import Callable
from typing import Any

import pytest

from worldsize.common import named_tuple


def _value(base: Any) -> Any:
    class Value(base):  # type: ignore[misc]
        """Said of it."""

        first: int
        second: str = "two"
        third: tuple[int, ...] = ()

        @property
        def both(self) -> str:
            return "%d %s" % (self.first, self.second)

        @classmethod
        def of(cls, text: str) -> Any:
            return cls(int(text), *text)

    Value.__qualname__ = "Value"
    return Value


Ours = _value(named_tuple.NamedTuple)
Theirs = _value(typing.NamedTuple)
Own = type("Own", (Ours,), {"__slots__": (), "more": lambda self: self.first + 1})

SEEN: list[Callable[[Any], Any]] = [
    lambda kind: kind(1),
    lambda kind: kind(1, "x", (3,)),
    lambda kind: kind(third=(1,), first=0),
    lambda kind: kind(1, third=(2,)).third,
    lambda kind: kind(1).both,
    lambda kind: kind.of("7"),
    lambda kind: repr(kind(1, "x")),
    lambda kind: kind(1)._replace(second="x", third=(1,)),
    lambda kind: type(kind(1)._replace(first=2)).__name__,
    lambda kind: list(kind(1)._asdict().items()),
    lambda kind: (kind._fields, kind._field_defaults, kind.__match_args__, kind.__doc__),
    lambda kind: (kind(1) == (1, "two", ()), kind(1) == kind(2), hash(kind(1)), kind(1) < kind(2)),
    lambda kind: (len(kind(1)), tuple(kind(1)), kind(1)[1], kind(1)[1:]),
    lambda kind: copy.deepcopy(kind(1, "x", (1, 2))),
    lambda kind: hasattr(kind(1), "__dict__"),
    lambda kind: typing.get_type_hints(kind)["first"],
]
REFUSED: list[Callable[[Any], Any]] = [
    lambda kind: kind(),
    lambda kind: kind(1, 2, 3, 4),
    lambda kind: kind(1, fourth=4),
    lambda kind: kind(1, first=1),
    lambda kind: kind(1)._replace(fourth=4),
    lambda kind: setattr(kind(1), "first", 2),
]


@pytest.mark.parametrize("number", range(len(SEEN)))
def test_the_same_is_seen(number: int) -> None:
    assert SEEN[number](Ours) == SEEN[number](Theirs)


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_the_same_is_refused(number: int) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError)):
        REFUSED[number](Theirs)
    with pytest.raises((TypeError, ValueError, AttributeError)):
        REFUSED[number](Ours)


def test_a_subclass_adds_to_it() -> None:
    assert Own(1).more() == 2 and type(Own(1)._replace(first=5)) is Own and Own(1) == Ours(1)


def test_it_can_be_pickled() -> None:
    from worldsize.state.records import Status

    value = Status("FAILED", exit_code=3)
    assert pickle.loads(pickle.dumps(value)) == value and isinstance(pickle.loads(pickle.dumps(value)), Status)


def test_the_agent_starts_without_what_it_does_not_need() -> None:
    """Each of these takes milliseconds, on every node, before any rank starts."""
    script = "import worldsize.agent.__main__, sys; print(*sys.modules)"
    words = subprocess.check_output(
        [sys.executable, "-I", "-S", "-c", "import sys; sys.path[:0] = %r; %s" % (sys.path, script)]
    )
    loaded = set(words.decode().split())
    heavy = {"typing", "pathlib", "subprocess", "tempfile", "shutil", "logging", "dataclasses", "argparse", "inspect"}
    assert not loaded & heavy


def test_a_module_without_the_future_import_has_fields_too() -> None:
    """From Python 3.14 on its annotations are made when they are asked for; a plug-in may be written so."""
    text = "class Point(NamedTuple):\n    x: int\n    y: 'Later' = 2\n    sum = lambda self: self.x + self.y\n"
    names: dict[str, Any] = {"NamedTuple": named_tuple.NamedTuple}
    exec(compile(text, "plug_in.py", "exec", dont_inherit=True), names)
    assert (names["Point"]._fields, names["Point"](1).sum()) == (("x", "y"), 3)
    exec(compile("class Empty(NamedTuple):\n    pass\n", "plug_in.py", "exec", dont_inherit=True), names)
    assert names["Empty"]._fields == ()
