"""What TensorFlow and JAX find in their variables, beside what every rank has."""

from __future__ import annotations

import json

import pytest

from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.rank_environment import convention_variables, rank_environment
from worldsize.plan.rank_variables import Host, RankContext, RendezvousResult
from worldsize.plan.variable_conflicts import contradictions
from worldsize.wings.frameworks.tensorflow import role_layout


def plan_of(nodes: int, ranks: int, **fields) -> Plan:
    values = {"environment": {}, **fields}
    return Plan("run-7", "t", "lab", 1.5, 3, node_major_layout(nodes, ranks), ("true",), **values)


def context_of(plan: Plan, rank: int) -> RankContext:
    node = next(node for node in plan.nodes if any(each.rank == rank for each in node.ranks))
    mine = next(each for each in node.ranks if each.rank == rank)
    world = RendezvousResult("10.1.2.3", 29871, tuple(Host("host%d" % each.node_rank, 8) for each in plan.nodes))
    return RankContext(plan, world, node, mine, "/runs/r", "/runs/r/error.json")


def test_tf_config_is_the_tensorflow_jobs_alone():
    nodes = role_layout(2, ("chief", "worker"), ("ps", "evaluator"))
    hosts = (Host("a", 8, "10.0.0.1", (2001, 2002)), Host("b", 8, "10.0.0.2", (2001, 2003)))

    def found(rank, **fields):
        plan = plan_of(1, 1, **fields)._replace(nodes=nodes)
        context = context_of(plan, rank)._replace(world=RendezvousResult("10.0.0.1", 1, hosts))
        return convention_variables(context).get("TF_CONFIG")

    assert found(0) is None
    configs = [json.loads(found(rank, framework="tensorflow", conventions=("torch",))) for rank in range(4)]
    cluster = {"chief": ["10.0.0.1:2001"], "ps": ["10.0.0.1:2002"], "worker": ["10.0.0.2:2001"]}
    assert [config.pop("cluster") for config in configs] == [cluster] * 4
    tasks = [("chief", 0), ("ps", 0), ("worker", 0), ("evaluator", 0)]
    assert configs == [{"task": {"type": kind, "index": n}, "environment": "cloud"} for kind, n in tasks]


@pytest.mark.parametrize(
    ("ranks", "fields", "devices"),
    [
        (2, {"framework": "jax", "gpus": 4}, ["0,1", "2,3"]),
        (1, {"framework": "jax", "gpus": 4}, ["0,1,2,3"]),
        (2, {"framework": "jax", "gpus": 4, "visible_devices": True}, ["0", "0"]),
        (4, {"framework": "jax", "gpus": 2}, ["0", "1", "0", "1"]),
        (2, {"framework": "jax"}, [None, None]),
        (2, {"gpus": 4}, [None, None]),
    ],
)
def test_a_jax_rank_has_its_share_of_the_gpus(ranks, fields, devices):
    plan = plan_of(1, ranks, **fields)
    found = [convention_variables(context_of(plan, rank)).get("JAX_LOCAL_DEVICE_IDS") for rank in range(ranks)]
    assert found == devices


def test_a_tf_config_of_the_jobs_own_contradicts():
    plan = plan_of(2, 1, framework="tensorflow", ports="rank")
    assert contradictions(plan, {"TF_CONFIG": "{}"}) == [("TF_CONFIG", "a different value for each rank")]
    one = plan_of(1, 1, framework="tensorflow", ports="rank")
    assert contradictions(one, {"TF_CONFIG": "{}"}) == [("TF_CONFIG", "chosen when the run starts")]


@pytest.mark.parametrize(("threads", "given"), [(1, ("1", "2")), (2, ("2", "2")), (8, ("8", "8"))])
def test_tensorflow_has_its_share_of_threads_and_never_a_single_one_between_operations(threads, given):
    hosts = (Host("a", 8, "10.0.0.1", (2001,)),)
    names = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")

    def found(inherited, **fields):
        context = context_of(plan_of(1, 1, **fields), 0)._replace(world=RendezvousResult("10.0.0.1", 1, hosts))
        environment = rank_environment(context, inherited, threads)
        return tuple(environment.get(name) for name in names)

    assert found({}, framework="tensorflow") == given
    assert found(dict.fromkeys(names, "5"), framework="tensorflow") == ("5", "5")
    assert found({}) == (None, None)
