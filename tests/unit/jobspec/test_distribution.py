"""The axis of distributions: kinds by name, extras that only warn, wrong values that do not."""

from __future__ import annotations

import inspect
import pickle
import sys
import warnings
from pathlib import Path
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
        ({"type": "pytorch", "process_count_per_instance": "2"}, "write it without quotes"),
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


KIND = """
from typing import NamedTuple
from worldsize.plan.plan import node_major_layout
from worldsize.jobspec.distributions.base import Arrangement, count_key

class Own(NamedTuple):
    pairs: int = 1
    type: str = "own"

    @staticmethod
    def keys():
        return {"pairs": count_key("Pairs of ranks on each node.")}

    def world_size(self, instances):
        return instances * 2 * self.pairs

    def arrange(self, instances):
        return Arrangement(node_major_layout(instances, 2 * self.pairs, "pair"), options={"x": [1]})
"""


@pytest.fixture
def other_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_kind.py").write_text(KIND)
    (tmp_path / "own-1.dist-info").mkdir()
    (tmp_path / "own-1.dist-info" / "METADATA").write_text("Name: own\nVersion: 1\n")
    points = "[worldsize.distributions]\nown = own_kind:Own\nbroken = own_kind:Gone\npytorch = own_kind:Own\n"
    points += "bare = own_kind:NamedTuple\n"
    (tmp_path / "own-1.dist-info" / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(tmp_path)


def test_a_kind_of_another_package(other_package: None) -> None:
    found = parse_distribution({"type": "Own", "pairs": 3, "more": 1}, "here", warnings := [])
    assert found is not None and (found.type, found.world_size(2), found.arrange(2).options) == ("own", 12, {"x": [1]})
    assert warnings == ["here: distribution.more: is not a key of own; ignored"]
    with pytest.raises(JobError, match=r"distribution\.pairs: is 0, must be at least 1"):
        parse_distribution({"type": "own", "pairs": 0}, "here", [])
    with pytest.raises(JobError, match=r"the distribution broken of own 1 \(own_kind:Gone\) cannot be loaded"):
        parse_distribution({"type": "broken"}, "here", [])
    with pytest.raises(JobError, match=r"bare of own 1 \(own_kind:NamedTuple\) lacks keys, world_size"):
        parse_distribution({"type": "bare"}, "here", [])
    with pytest.raises(JobError, match="did you mean 'own'"):
        parse_distribution({"type": "owm"}, "here", [])
    assert parse_distribution({"type": "pytorch"}, "here", []) == PyTorchDistribution(1)


def with_method(name: str, body: str) -> str:
    return KIND + "\n    def %s(self, instances=1):\n        %s\n" % (name, body)


WHOSE = "distribution.type: the distribution own of own 1 (own_kind:Own) "


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("1 / 0", "cannot be loaded: ZeroDivisionError: division by zero"),
        ("Own = 5", "lacks keys, world_size, arrange, _fields, _field_defaults"),
        (KIND + "\nOwn = Own()", "is no class of named tuples"),
        (KIND.replace('    type: str = "own"\n', ""), "has no default of type"),
        (KIND.replace("pairs: int = 1", "pairs: int"), "has no default of pairs"),
        (KIND.replace("return {", "return 1 / 0, {"), "failed in keys: ZeroDivisionError: division by zero"),
        (KIND.replace("return {", "return None, {"), "failed: keys returned (None, "),
        (KIND.replace('"pairs": c', '"pears": c'), "failed: keys returned {'pears': "),
        (with_method("keys", "return {'pairs': 5}").replace("self, instances=1", ""), "failed: keys returned "),
        (with_method("world_size", "1 / 0"), "failed in world_size: ZeroDivisionError: division by zero"),
        (with_method("world_size", "return '4'"), "failed: world_size returned '4', which is not a number of ranks"),
        (with_method("arrange", "1 / 0"), "failed in arrange: ZeroDivisionError: division by zero"),
        (with_method("arrange", "return None"), "failed: arrange returned None, which is not an Arrangement"),
        (with_method("arrange", "return Arrangement(5)"), "failed: arrange returned Arrangement(nodes=5, "),
    ],
)
def test_a_kind_that_does_not_what_it_owes_is_a_sentence_that_names_the_package(
    other_package: None, tmp_path: Path, module: str, says: str
) -> None:
    (tmp_path / "own_kind.py").write_text(module)
    sys.modules.pop("own_kind", None)
    with pytest.raises(JobError) as caught:
        found: Any = parse_distribution({"type": "own"}, "here", [])
        found.world_size(2), found.arrange(2)
    assert WHOSE + says in str(caught.value)
