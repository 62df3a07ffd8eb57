"""The axis of distributions: kinds by name, extras that only warn, wrong values that do not."""

from __future__ import annotations

import inspect
import pickle
import warnings
from typing import Any

import pytest
from distributions import parse_distribution

from worldsize.errors import JobError
from worldsize.jobspec.distribution import DISTRIBUTIONS, processes_per_instance
from worldsize.jobspec.distributions.plain import PlainDistribution
from worldsize.jobspec.distributions.pytorch import PyTorchDistribution


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ({"type": "PyTorch"}, PyTorchDistribution(1)),
        ({"type": "PYTORCH", "process_count_per_instance": 4}, PyTorchDistribution(4)),
        ({"type": "pytorch", "process_count_per_instance": None}, PyTorchDistribution(1)),
        ({"type": "pytorch", "launcher": "torchrun"}, PyTorchDistribution(1, "torchrun")),
        ({"type": "none", "process_count_per_instance": 8}, PlainDistribution(8)),
        (PlainDistribution(process_count_per_instance=2), PlainDistribution(2)),
    ],
)
def test_kinds(value: Any, expected: Any) -> None:
    warnings: list[str] = []
    assert parse_distribution(value, "here", warnings) == expected
    assert warnings == []


def test_extras_warn_at_any_depth_and_are_dropped() -> None:
    warnings: list[str] = []
    value = {"type": "pytorch", "process_count_per_instance": 4, "additional_prop": {"nested_prop": {"deep": [3]}}}
    assert parse_distribution(value, "here", warnings) == PyTorchDistribution(4)
    assert warnings == ["here: distribution.additional_prop: is not a key of pytorch; ignored"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "distribution.type: is missing"),
        ({"process_count_per_instance": 2}, "one of: " + ", ".join(DISTRIBUTIONS)),
        ({"type": "pytroch"}, "did you mean 'pytorch'?"),
        ({"type": 3}, "distribution.type: expected text, found 3"),
        ({"type": "pytorch", "process_count_per_instance": 0}, "is 0, must be at least 1"),
        ({"type": "pytorch", "process_count_per_instance": -2}, "is -2, must be at least 1"),
        ({"type": "pytorch", "process_count_per_instance": "two"}, "found 'two' (text)"),
        ({"type": "pytorch", "process_count_per_instance": 1.5}, "expected a whole number"),
        ({"type": "pytorch", "process_count_per_instance": True}, "found true (a boolean)"),
        ({"type": "pytorch", "process_count_per_instance": 10**9}, "must be at most 1000000"),
        ({"type": "pytorch", "launcher": "torchrunn"}, "did you mean 'torchrun'?"),
        (PyTorchDistribution(process_count_per_instance=0), "is 0, must be at least 1"),
        ("pytorch", "expected a mapping of keys"),
        ([], "expected a mapping of keys"),
    ],
)
def test_what_is_wrong_is_said(value: Any, message: str) -> None:
    with pytest.raises(JobError) as caught:
        parse_distribution(value, "here", [])
    assert message in str(caught.value)
    assert caught.value.where == "here"


def test_processes_of_each_kind() -> None:
    assert processes_per_instance(None) == 1
    assert processes_per_instance(PyTorchDistribution(4)) == 4


@pytest.mark.parametrize("kind", [PyTorchDistribution, PlainDistribution])
def test_keywords_that_a_class_does_not_have_only_warn(kind: Any) -> None:
    with pytest.warns(UserWarning, match="%s has no added_property, more: ignored" % kind.__name__) as caught:
        made = kind(added_property=7, more={"deep": 1})
    assert made == kind() and [warning.filename for warning in caught] == [__file__]


def test_classes_without_extras_say_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = PyTorchDistribution(2, launcher="torchrun")
        assert made._replace(process_count_per_instance=4) == PyTorchDistribution(4, "torchrun")
        assert pickle.loads(pickle.dumps(made)) == made
        assert str(inspect.signature(PyTorchDistribution)).startswith("(process_count_per_instance")
    with pytest.raises(TypeError):
        PyTorchDistribution(1, "direct", None, 0, "c10d", "pytorch", 4)  # type: ignore[call-arg]
