"""The plan's JSON: every plan comes back as it was, and nothing else is taken for one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selection import cases

from worldsize.plan.node_disk import InputCopy, NodeDiskPlan, PackedEnvironment
from worldsize.plan.plan import (
    PLAN_VERSION,
    ArrayElement,
    BatchPlan,
    NodePlan,
    Plan,
    RankPlan,
    RankStart,
    Rehearsal,
    node_major_layout,
)

texts = st.text(max_size=12)
seconds = st.floats(0, 1e9, allow_nan=False)
indices = st.lists(st.integers(0, 9), max_size=3).map(tuple)
batches = st.builds(
    BatchPlan,
    st.lists(texts, max_size=3).map(tuple),
    st.dictionaries(texts, texts, max_size=2),
    st.integers(1, 99),
    indices,
)
copies = st.lists(st.builds(InputCopy, texts, texts, texts), max_size=2).map(tuple)
local_needs = st.builds(
    NodeDiskPlan,
    texts,
    copies,
    st.lists(texts, max_size=2).map(tuple),
    st.dictionaries(texts, texts, max_size=2),
    st.none() | st.builds(PackedEnvironment, texts, texts, st.integers(0, 9), texts),
)
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
        named=tuple(draw(st.lists(texts, max_size=2))),
        nodes=tuple(NodePlan(index, ranks) for index, ranks in enumerate(nodes)),
        argv=tuple(draw(st.lists(texts, min_size=1, max_size=4))),
        environment=draw(st.dictionaries(texts, texts, max_size=4)),
        framework=draw(texts),
        launcher=draw(st.sampled_from(["direct", "torchrun"])),
        options=draw(st.dictionaries(texts, texts | st.integers(0, 9) | st.lists(texts, max_size=2), max_size=2)),
        ports=draw(st.sampled_from(["", "rank", "node"])),
        leaders=tuple(draw(st.lists(st.integers(0, 9), max_size=2))),
        lingering=tuple(draw(st.lists(texts, max_size=2))),
        conventions=tuple(draw(st.lists(texts, max_size=3))),
        threads=draw(st.none() | st.integers(1, 64)),
        bind=draw(st.sampled_from(["none", "node"])),
        visible_devices=draw(st.booleans()),
        grace=draw(seconds),
        timeout=draw(st.none() | seconds),
        hang_timeout=draw(seconds),
        watchdog_timeout=draw(seconds),
        watchdog_action=draw(st.sampled_from(["report", "stop"])),
        strict=draw(st.booleans()),
        services=draw(st.sampled_from([{}, {"board": {"type": "tensor_board", "port": 6006}}])),
        shm_bytes=draw(st.none() | st.integers(1, 1 << 40)),
        terminal=draw(st.booleans()),
        debugger=draw(st.none() | st.integers(0, 9)),
        metrics=draw(st.booleans()),
        notify=draw(texts),
        start=draw(st.builds(RankStart, st.lists(texts, max_size=2).map(tuple), st.booleans(), texts)),
        rendezvous_timeout=draw(seconds),
        silence=draw(seconds),
        path=tuple(draw(st.lists(texts, max_size=3))),
        setup=tuple(draw(st.lists(texts, max_size=3))),
        kept=tuple(draw(st.lists(texts, max_size=3))),
        umask=draw(st.integers(0, 0o777)),
        ranks_umask=draw(st.none() | st.integers(0, 0o777)),
        gpus=draw(st.none() | st.integers(0, 8)),
        array=draw(
            st.none() | st.builds(ArrayElement, st.integers(0, 9), st.integers(1, 10), texts, st.none() | st.just(2))
        ),
        batch=draw(st.none() | batches),
        python=draw(texts),
        rdzv_endpoint=draw(st.none() | texts),
        errands=draw(st.booleans()),
        local=draw(st.none() | local_needs),
        step=tuple(draw(st.lists(texts, max_size=2))),
        shielded=draw(st.booleans()),
        library_path=tuple(draw(st.lists(texts, max_size=2))),
        activated=draw(st.dictionaries(texts, st.none() | texts, max_size=3)),
        interpreter=draw(st.none() | texts),
        data_parallel=draw(st.sampled_from([None, "split", "scale"])),
        inrank=tuple(draw(st.lists(texts, max_size=2))),
        labels=draw(st.fixed_dictionaries({}, optional={"description": texts, "tags": st.dictionaries(texts, texts)})),
        secrets=tuple(draw(st.lists(st.sampled_from(("HF_TOKEN", "X")), unique=True))),
        hidden=tuple(draw(st.lists(st.sampled_from(("argv", "environment")), unique=True))),
        rehearsal=draw(
            st.none() | st.builds(Rehearsal, st.integers(1, 8), st.booleans(), st.lists(texts, max_size=2).map(tuple))
        ),
    )


@settings(max_examples=cases(150))
@given(plans())
def test_round_trip(plan):
    text = plan.to_json()
    assert text.isascii() and "\n" not in text
    again = Plan.from_json(text)
    assert again == plan
    assert [type(value) for value in again] == [type(value) for value in plan]
    assert again.to_json() == text


def test_a_plan_of_an_earlier_release_has_what_is_new_by_default():
    value = json.loads(a_plan().to_json())
    for name in Plan._field_defaults:
        del value[name]
    old = Plan.from_json(json.dumps(value))
    assert old == a_plan()._replace(**Plan._field_defaults)


def test_every_field_is_drawn():
    """A field that is new to the plan must be new to the round trip too."""
    drawn = set(Plan._fields) - {"run_id"}
    source = open(__file__).read()
    assert {field for field in drawn if "        %s=" % field not in source} == set()


def a_plan(**fields) -> Plan:
    return Plan("r", "t", "local", 1.0, 0, node_major_layout(2, 2), ("true",), {}, **fields)


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


@pytest.mark.parametrize("field", ["nodes", "argv", "path"])
@pytest.mark.parametrize("wrong", [None, 7])
def test_a_field_of_the_wrong_kind_is_refused(field, wrong):
    value = {**json.loads(a_plan().to_json()), field: wrong}
    with pytest.raises(ValueError):
        Plan.from_json(json.dumps(value))


def test_a_key_of_a_newer_release_is_left_out_and_one_too_few_is_refused():
    value = json.loads(a_plan().to_json())
    longer = [[[*rank, "new"] for rank in node] for node in value["nodes"]]
    assert Plan.from_json(json.dumps({**value, "colour": "red", "nodes": longer})) == a_plan()
    del value["run_id"]
    with pytest.raises(ValueError, match="run_id"):
        Plan.from_json(json.dumps(value))


@pytest.mark.parametrize(("nodes", "per_node"), [(1, 1), (2, 2), (3, 1), (256, 4)])
def test_node_major(nodes, per_node):
    plan = a_plan()._replace(nodes=node_major_layout(nodes, per_node))
    assert plan.world_size == nodes * per_node
    pairs = [(node.node_rank, each) for node in plan.nodes for each in node.ranks]
    for rank, (node_rank, each) in enumerate(pairs):
        assert (each.rank, node_rank, each.local_rank) == (rank, *divmod(rank, per_node))
        assert each.role_index == rank
