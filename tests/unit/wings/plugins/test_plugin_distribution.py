"""Distributions that other packages bring; what cannot be used is one sentence."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from distributions import parse_distribution

from worldsize.errors import JobError
from worldsize.jobspec.distributions.pytorch import PyTorchDistribution

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
        (KIND + "\nOwn = Own()", "is not a class of named tuples"),
        (KIND.replace('    type: str = "own"\n', ""), "lacks defaults for type"),
        (KIND.replace("pairs: int = 1", "pairs: int"), "lacks defaults for pairs"),
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
