"""The plan's JSON: every plan comes back as it was, and nothing else is taken for one."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worldsize.plan.launch import PLAN_VERSION, NodePlan, Plan, RankPlan
from worldsize.plan.layout import bind_cores, node_major

texts = st.text(max_size=12)
seconds = st.floats(0, 1e9, allow_nan=False)
rank_plans = st.builds(RankPlan, st.integers(0, 999), st.integers(0, 9), texts, st.integers(0, 9))


@st.composite
def plans(draw) -> Plan:
    nodes = draw(st.lists(st.lists(rank_plans, max_size=3).map(tuple), min_size=1, max_size=3))
    return Plan(
        run_id=draw(texts),
        name=draw(texts),
        compute=draw(texts),
        created=draw(seconds),
        attempt=draw(st.integers(0, 9)),
        nodes=tuple(NodePlan(index, ranks) for index, ranks in enumerate(nodes)),
        argv=tuple(draw(st.lists(texts, min_size=1, max_size=4))),
        environment=draw(st.dictionaries(texts, texts, max_size=4)),
        framework=draw(texts),
        launcher=draw(st.sampled_from(["direct", "torchrun"])),
        conventions=tuple(draw(st.lists(texts, max_size=3))),
        threads=draw(st.none() | st.integers(1, 64)),
        binding=tuple(map(tuple, draw(st.lists(st.lists(st.integers(0, 63), max_size=3), max_size=3)))),
        visible_devices=draw(st.booleans()),
        grace=draw(seconds),
        timeout=draw(st.none() | seconds),
        rendezvous_timeout=draw(seconds),
        silence=draw(seconds),
        path=tuple(draw(st.lists(texts, max_size=3))),
        umask=draw(st.integers(0, 0o777)),
        gpus=draw(st.none() | st.integers(0, 8)),
    )


@settings(max_examples=150, deadline=None)
@given(plans())
def test_round_trip(plan):
    text = plan.to_json()
    assert text.isascii() and "\n" not in text
    again = Plan.from_json(text)
    assert again == plan
    assert [type(value) for value in again] == [type(value) for value in plan]
    assert again.to_json() == text


def test_every_field_is_drawn():
    """A field that is new to the plan must be new to the round trip too."""
    drawn = set(Plan._fields) - {"run_id"}
    source = open(__file__).read()
    assert {field for field in drawn if "        %s=" % field not in source} == set()


def a_plan(**fields) -> Plan:
    return Plan("r", "t", "local", 1.0, 0, node_major(2, 2), ("true",), {}, **fields)


@pytest.mark.parametrize("version", [0, PLAN_VERSION + 1, "1", None, 1.5])
def test_another_version_is_refused(version):
    value = json.loads(a_plan().to_json())
    value["version"] = version
    with pytest.raises(ValueError, match="version"):
        Plan.from_json(json.dumps(value))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "7", '"plan"', "{}", '{"version": %d}' % PLAN_VERSION])
def test_what_is_no_plan_is_refused(text):
    with pytest.raises(ValueError):
        Plan.from_json(text)


@pytest.mark.parametrize("field", ["nodes", "argv", "binding", "path"])
@pytest.mark.parametrize("wrong", [None, 7])
def test_a_field_of_the_wrong_kind_is_refused(field, wrong):
    value = {**json.loads(a_plan().to_json()), field: wrong}
    with pytest.raises(ValueError):
        Plan.from_json(json.dumps(value))


def test_a_key_too_many_or_too_few_is_refused():
    value = json.loads(a_plan().to_json())
    with pytest.raises(ValueError, match="colour"):
        Plan.from_json(json.dumps({**value, "colour": "red"}))
    del value["run_id"]
    with pytest.raises(ValueError, match="run_id"):
        Plan.from_json(json.dumps(value))


@pytest.mark.parametrize(("nodes", "per_node"), [(1, 1), (2, 2), (3, 1), (256, 4)])
def test_node_major(nodes, per_node):
    plan = a_plan()._replace(nodes=node_major(nodes, per_node))
    assert plan.world_size == nodes * per_node
    pairs = [(node.node_rank, each) for node in plan.nodes for each in node.ranks]
    for rank, (node_rank, each) in enumerate(pairs):
        assert (each.rank, node_rank, each.local_rank) == (rank, *divmod(rank, per_node))
        assert each.role_index == rank


@pytest.mark.parametrize("cores", [1, 2, 3, 4, 7, 8])
@pytest.mark.parametrize("processes", [1, 2, 3, 8])
def test_cores_are_shared_out_evenly_and_to_one_process_each(processes, cores):
    shares = bind_cores(processes, tuple(range(10, 10 + cores)))
    if cores < processes:
        assert shares == ()
        return
    assert len(shares) == processes and {len(share) for share in shares} == {math.floor(cores / processes)}
    flat = [core for share in shares for core in share]
    assert flat == sorted(set(flat)) and set(flat) <= set(range(10, 10 + cores))
