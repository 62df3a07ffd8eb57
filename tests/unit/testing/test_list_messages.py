"""`make messages` prints what the program says, of every kind."""

from __future__ import annotations

import pytest
from scripts.list_messages import SOURCE, read_messages, texts_of


@pytest.mark.heavy
@pytest.mark.parametrize(
    "text",
    [
        "{text} matches no run",
        "`worldsize list` shows the runs",
        "run a job and follow it to its end",
        "print the version",
        "at_once has no meaning for a single run",
        "not a run directory (it has no plan.json)",
    ],
    ids=["error", "hint", "verb", "option", "Python", "where"],
)
def test_each_kind_is_there(text: str, messages: list[str]) -> None:
    assert messages.count(text) == 1


@pytest.fixture(scope="module")
def messages() -> list[str]:
    return [message.text for message in read_messages(SOURCE)]


def test_no_docstring_and_no_annotation() -> None:
    code = 'def f(a: "not this one") -> None:\n    """Nor this one."""\n    x: "nor this" = "but this one"\n'
    assert list(texts_of(code)) == [(3, "but this one")]


def test_values_have_names() -> None:
    assert list(texts_of("f(f'node {node.rank} of {len(nodes):d}: gone')")) == [
        (1, "node {node.rank} of {len(nodes)}: gone")
    ]
