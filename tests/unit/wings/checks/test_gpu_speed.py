"""Which GPUs are said to be slow, by recorded answers: none of this was measured on GPUs."""

import pytest
from measured_nodes import LISTENS, cluster_of, with_answer

from worldsize.state.check_rows import BAD, OK, UNKNOWN, WARNING
from worldsize.wings.checks.agent.judgement.gpu_speed import gpu_rows
from worldsize.wings.checks.agent.judgement.rounds import ROUNDS, groups_of
from worldsize.wings.checks.agent.stages import pairs

H100 = "NVIDIA H100 80GB HBM3"
TORCH = {"version": "2.13.0", "cuda": "12.8"}


def gpu_cluster(count, gpus=8, model=H100, flops=None, gathering=None):
    """`flops`: by node and GPU, others have 650e12. `gathering`: by node, the bytes per second of a slow one, which its
    partners have with it, too."""
    facts = {
        rank: {"gpus": [{"index": i, "model": model} for i in range(gpus)], "torch": TORCH} for rank in range(count)
    }
    cluster = cluster_of(count, facts=facts)
    for name in ("pairs", "second_pairs"):
        for rank in range(count):
            answer = dict(cluster.nodes[rank].answers[name])
            answer["gpus"] = {str(i): _report(rank, i, flops or {}) for i in range(gpus)}
            cluster = with_answer(cluster, rank, name, answer)
    return _with_gathering(cluster, gathering or {})


def _report(rank, index, flops):
    return {"stage": "done", "flops": flops.get((rank, index), 650e12), "gathering": 40e9}


def _with_gathering(cluster, gathering):
    for turn, name in enumerate(ROUNDS):  # the groups of the second round follow from the answers of the first
        for group in groups_of(cluster)[turn]:
            rate = min(gathering.get(rank, 40e9) for rank in group)
            for rank in group:
                for report in cluster.nodes[rank].answers[name]["gpus"].values():
                    report["gathering"] = rate
    return cluster


def verdicts(cluster):
    return [(row.node, row.id, row.verdict) for row in gpu_rows(cluster)]


FINE = [("", "speed.compute", OK), ("", "speed.network", OK)]


def test_gpus_that_are_alike_have_a_row_of_their_products_and_one_of_nccl():
    assert verdicts(gpu_cluster(4)) == FINE
    assert gpu_rows(gpu_cluster(4))[0].value == "32 GPUs, 650 to 650 TFLOPS each"


def test_nodes_without_gpus_have_no_row():
    assert verdicts(cluster_of(4)) == []


@pytest.mark.parametrize("flops, verdict", [(200e12, BAD), (450e12, WARNING), (520e12, OK)])
def test_a_slow_gpu_is_named(flops, verdict):
    row = gpu_rows(gpu_cluster(2, flops={(1, 3): flops}))[0]
    assert (row.node, row.verdict) == ("" if verdict == OK else "node1", verdict)
    assert verdict == OK or row.value.startswith(
        "GPU 3: %d TFLOPS, %d%% of the other" % (flops / 1e12, round(flops / 6.5e12))
    )


def test_few_gpus_are_measured_by_the_data_sheet_unless_they_are_parts_of_one():
    slow = {(rank, 0): 100e12 for rank in range(2)}
    assert [row.verdict for row in gpu_rows(gpu_cluster(2, 1, flops=slow))[:2]] == [WARNING, WARNING]
    assert verdicts(gpu_cluster(2, 1, flops={(1, 0): 300e12})) == FINE
    assert verdicts(gpu_cluster(2, 1, model=H100 + " MIG 1g.10gb", flops=slow)) == FINE
    assert verdicts(gpu_cluster(2, 1, model="Unheard of", flops=slow)) == FINE


def test_models_are_not_compared_with_each_other():
    cluster = gpu_cluster(2, flops={(1, i): 100e12 for i in range(8)})
    for gpu in cluster.nodes[1].facts["gpus"]:
        gpu["model"] = "NVIDIA A10"
    assert verdicts(cluster) == FINE


@pytest.mark.parametrize("count", [3, 4, 7, 8])
@pytest.mark.parametrize("rank", [0, 2])
def test_a_node_with_a_slow_nccl_is_named(count, rank):
    found = verdicts(gpu_cluster(count, 2, gathering={rank: 5e9}))
    if count == 3:  # all three are one group in both rounds
        assert found == FINE
    else:
        assert found == [("", "speed.compute", OK), ("node%d" % rank, "speed.network", WARNING)]


@pytest.mark.parametrize(
    "gpus", [None, 3, [], {}, {"0": None}, {"0": {"error": "CUDA out of memory"}}, {"x": {"flops": "y"}}]
)
def test_what_says_nothing_is_unknown(gpus):
    cluster = gpu_cluster(4)
    answer = {**cluster.nodes[1].answers["pairs"], "gpus": gpus}
    assert ("node1", "speed.compute", UNKNOWN) in verdicts(with_answer(cluster, 1, "pairs", answer))


def test_orders_number_the_ranks_of_a_pair():
    orders = pairs.STAGE.orders(gpu_cluster(2, 4))
    assert [(each["gpus"]["first"], each["gpus"]["count"], each["gpus"]["world"]) for each in orders.values()] == [
        (0, 4, 8), (4, 4, 8)
    ]  # fmt: skip
    assert orders[0]["gpus"]["store"] is None
    assert orders[1]["gpus"]["store"]["port"] == LISTENS["port"]


def test_nodes_whose_partner_has_no_gpu_measure_none():
    cluster = gpu_cluster(2, 4)
    nodes = [cluster.nodes[0], cluster.nodes[1]._replace(facts={})]
    assert not any(order["gpus"] for order in pairs.STAGE.orders(cluster._replace(nodes=nodes)).values())
