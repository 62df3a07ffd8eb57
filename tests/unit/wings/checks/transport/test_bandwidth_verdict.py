"""The bandwidth of an all-reduce, judged; and the stage that asks for it."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from tests.unit.wings.checks.transport import nccl_lines as logs

from worldsize.state.check_rows import CheckRow
from worldsize.wings.checks.agent.cluster import CheckedNode, Cluster
from worldsize.wings.checks.agent.stages.bandwidth import STAGE
from worldsize.wings.checks.agent.tables.bandwidth import PUBLISHED, published_bandwidth
from worldsize.wings.checks.agent.transport.bandwidth_verdict import bandwidth_rows, share_of_rate
from worldsize.wings.checks.agent.transport.nccl_log import parse_nccl_log

SIZE = 512 << 20
NICS = [
    {"device": "mlx5_%d" % n, "port": 1, "state": "ACTIVE", "rate_gbps": 400.0, "layer": "InfiniBand", "netdev": ""}
    for n in range(8)
]
ALL_NICS = "NET/IB : Using " + " ".join("[%d]mlx5_%d:1/IB" % (n, n) for n in range(8)) + " [RO]; OOB"
IB_LOG = logs.IB.replace("NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB", ALL_NICS) + "".join(
    "n1:1:1 [0] NCCL INFO Channel 00/0 : %d[%d] -> %d[%d] [send] via NET/IB/%d/GDRDMA\n" % (n, n, 8 + n, n, n)
    for n in range(8)
)
GPUS = [{"index": n, "model": "NVIDIA H200", "memory_mib": 143771, "used_mib": 0} for n in range(8)]


def answer(seconds: float, text: str = IB_LOG, **rest: Any) -> dict[str, Any]:
    summary = json.loads(json.dumps(parse_nccl_log(text.splitlines())._asdict()))
    return {"nccl": summary, "size": SIZE, "times": 9, "seconds": seconds, "correct": True, **rest}


def node(rank: int, said: Any, ports: Any = NICS, model: str = "NVIDIA H200") -> CheckedNode:
    gpus = [{**gpu, "model": model} for gpu in GPUS]
    facts = {"fabric": ports, "gpus": gpus, "torch": {"version": "2.9", "cuda": "12.8", "nccl": "2.27.6"}}
    return CheckedNode(rank, "n%d" % rank, "n%d" % rank, "10.0.0.%d" % rank, facts, {"bandwidth": said})


def seconds_for(bandwidth: float, ranks: int) -> float:
    return SIZE * 2 * (ranks - 1) / ranks / 1e9 / bandwidth


def rows_of(bandwidth: float, count: int = 4, **rest: Any) -> list[CheckRow]:
    said = answer(seconds_for(bandwidth, 8 * count), **rest)
    return bandwidth_rows([node(rank, said) for rank in range(count)], 8 * count)


def test_the_published_example_is_73_percent() -> None:
    """4 × 8 GPUs, 377 GB/s, one adapter of 50 GB/s for each GPU: 36.5 GB/s of each (anchor: ml-engineering)."""
    assert share_of_rate(377, 4, 32, 8 * 400) == pytest.approx(0.73, abs=0.003)


@pytest.mark.parametrize(
    ("bandwidth", "verdict", "share"),
    [(377, "ok", "73%"), (300, "ok", "58%"), (200, "warning", "39%"), (60, "warning", "12%")],
)
def test_the_share_of_the_adapters_rate_is_judged(bandwidth: float, verdict: str, share: str) -> None:
    (row,) = rows_of(bandwidth)

    assert (row.node, row.id, row.verdict) == ("", "fabric.bandwidth", verdict)
    assert "%g GB/s bus bandwidth at 512 MiB, %s of the adapters' rate" % (bandwidth, share) in row.value


@pytest.mark.parametrize("text", [logs.IB, IB_LOG.rpartition("n1:1:1 [0] NCCL INFO Channel 00/0 : 2[2]")[0]])
def test_only_adapters_that_nccl_used_count(text: str) -> None:
    (row,) = rows_of(95, text=text)

    assert "73%" in row.value or "74%" in row.value


def test_an_adapter_that_is_not_named_makes_the_rate_unknown() -> None:
    """From 2.23 on NCCL joins adapters into others, which have numbers of their own."""
    (row,) = rows_of(95, text=logs.IB.replace("NET/IB/1/", "NET/IB/2/"))

    assert row.verdict == "unknown"


@pytest.mark.parametrize(("gpus", "verdict"), [(8, "warning"), (1, "unknown")])
def test_without_names_all_adapters_are_those_of_a_run_on_all_gpus(gpus: int, verdict: str) -> None:
    ports = [{**NICS[0], "device": "efa_%d" % n, "layer": "Unspecified"} for n in range(8)]
    said = answer(seconds_for(20, 2 * gpus), logs.EFA)

    assert bandwidth_rows([node(0, said, ports), node(1, said, ports)], 2 * gpus)[0].verdict == verdict


def test_what_goes_through_host_memory_may_be_slower() -> None:
    text = IB_LOG.replace("/GDRDMA(PCI)", "").replace("/GDRDMA", "")

    assert [rows_of(rate, text=text)[0].verdict for rate in (200, 60)] == ["ok", "warning"]


def test_a_rate_that_is_missing_makes_it_unknown() -> None:
    said = answer(seconds_for(377, 32))
    ports = [{**NICS[0], "rate_gbps": None}]
    (row,) = bandwidth_rows([node(rank, said, ports) for rank in range(4)], 32)

    assert row.verdict == "unknown"


@pytest.mark.parametrize(
    ("speed", "words"), [(25.0, "32% of the interfaces' rate, by TCP"), (100.0, ", 8% of"), (0, "MiB, by TCP")]
)
def test_tcp_is_compared_with_its_interface_and_not_judged(speed: float, words: str) -> None:
    (row,) = rows_of(1.3, text=logs.SOCKETS_DISABLED, speeds={"eth0": speed})

    assert row.verdict == "ok"
    assert words in row.value


def test_less_than_512_mib_is_not_judged() -> None:
    (row,) = rows_of(20, size=64 << 20)

    assert row.verdict == "unknown"


def test_a_wrong_result_names_its_nodes() -> None:
    nodes = [node(rank, answer(0.01, correct=rank != 2)) for rank in range(4)]
    (row,) = bandwidth_rows(nodes, 32)

    assert (row.node, row.verdict, row.value) == ("n2", "bad", "a wrong result")


def test_a_wrong_result_of_all_names_none() -> None:
    (row,) = bandwidth_rows([node(rank, answer(0.01, correct=False)) for rank in range(4)], 32)

    assert (row.node, row.verdict) == ("", "bad")


def test_the_first_cause_is_told_where_nothing_was_measured() -> None:
    failed = {"failure": "torch.OutOfMemoryError: CUDA out of memory."}
    (row,) = bandwidth_rows([node(0, None), node(1, failed), node(2, None)], 24)

    assert (row.verdict, row.hint) == ("unknown", "n1: torch.OutOfMemoryError: CUDA out of memory.")


@pytest.mark.parametrize(
    ("sent", "named"), [(None, False), (0, False), (1 << 20, True), (3 * SIZE, True), (5 * SIZE, False)]
)
def test_ports_that_sent_too_little_are_told(sent: Any, named: bool) -> None:
    rows = rows_of(377, sent=sent)

    assert [row.verdict for row in rows] == (["ok"] + ["warning"] * 4 if named else ["ok"])


def test_ports_say_nothing_where_tcp_or_nvlink_carried_it() -> None:
    assert len(rows_of(1, text=logs.SOCKETS_DISABLED, sent=5)) == 1
    assert len(rows_of(377, text=logs.ONE_DOMAIN, sent=5)) == 1


@pytest.mark.parametrize(
    ("model", "bandwidth", "verdict"),
    [
        ("NVIDIA H200", 450, "ok"),
        ("NVIDIA H200", 40, "warning"),
        ("NVIDIA GH200 480GB", 40, "ok"),
        ("Tesla T4", 3, "ok"),
    ],
)
def test_one_node_is_compared_with_what_others_measured(model: str, bandwidth: float, verdict: str) -> None:
    said = answer(seconds_for(bandwidth, 8), text=logs.NVLINK)
    (row,) = bandwidth_rows([node(0, said, model=model)], 8)

    assert row.verdict == verdict


def test_the_table_is_looked_up_by_words_of_the_model() -> None:
    assert published_bandwidth("NVIDIA A100-SXM4-80GB", 8, 1, 512) == PUBLISHED[1]
    assert published_bandwidth("NVIDIA A100 80GB PCIe", 8, 1, 512) is None
    assert published_bandwidth("NVIDIA H100 NVL", 8, 1, 512) is None
    assert published_bandwidth("NVIDIA H100 80GB HBM3", 8, 1, 0) is not None
    assert published_bandwidth("", 8, 1, 512) is None


def cluster(nodes: list[CheckedNode], **asked: Any) -> Cluster:
    told = {"listen": {"port": 5000, "second_port": 5001, "token": "t"}}
    return Cluster([each._replace(answers={**each.answers, **told}) for each in nodes], asked)


def test_orders_number_the_ranks_node_by_node() -> None:
    orders = STAGE.orders(cluster([node(0, {}), node(1, {})], gpus=4))

    assert [orders[rank]["nccl"]["first"] for rank in (0, 1)] == [0, 4]
    assert orders[1]["nccl"] == {
        "world": 8, "size": SIZE, "address": "10.0.0.0", "count": 4, "first": 4, "readers": 1, "seconds": 45,
        "together": 40, "backend": "nccl",
        "store": {"address": "10.0.0.0", "port": 5000, "second_port": 5001, "token": "t"},
    }  # fmt: skip
    assert orders[0]["nccl"]["store"] is None


@pytest.mark.parametrize(
    ("facts", "asked"),
    [
        ({"gpus": []}, {}),
        ({"torch": {"cuda": None}}, {}),
        ({"torch": None}, {}),
        ({"gpus": "junk"}, {}),
        ({}, {"virtual": True}),
        ({}, {"gpus": 0}),
    ],
)
def test_without_gpus_nothing_is_asked_and_nothing_said(facts: dict[str, Any], asked: dict[str, Any]) -> None:
    nodes = [each._replace(facts={**each.facts, **facts}) for each in (node(0, {}), node(1, {}))]

    assert STAGE.orders(cluster(nodes, **asked)) == {}
    assert STAGE.judge(cluster(nodes, **asked)) == []


def test_one_gpu_alone_has_nobody_to_reduce_with() -> None:
    assert STAGE.orders(cluster([node(0, {})], gpus=1)) == {}
    assert STAGE.judge(cluster([node(0, {})], gpus=1)) == []


def test_one_node_that_cannot_take_part_is_told() -> None:
    nodes = [node(0, {}), node(1, {})._replace(facts={})]

    assert STAGE.orders(cluster(nodes)) == {}
    assert [row.hint for row in STAGE.judge(cluster(nodes))] == ["n1 has no GPU that its torch can use"]


def test_a_head_without_a_listener_is_told() -> None:
    (row,) = STAGE.judge(Cluster([node(0, {}), node(1, {})]))

    assert row.hint == "the head has no listener"


def test_open_mpi_is_asked_where_the_job_uses_it() -> None:
    nodes = [node(rank, {})._replace(facts={"fabric": NICS}) for rank in (0, 1)]

    assert STAGE.orders(cluster(nodes, framework="mpi")) == {0: {"mpi": True}, 1: {"mpi": True}}
    assert STAGE.orders(cluster(nodes, launcher="mpirun", virtual=True)) == {}
    assert [row.verdict for row in STAGE.judge(cluster(nodes, backend="mpi"))] == ["unknown", "unknown"]


def test_64_nodes_of_8_gpus_are_judged_within_a_second() -> None:
    nodes = [node(rank, answer(seconds_for(377, 512), sent=40 * SIZE)) for rank in range(64)]
    late = [each._replace(answers={}) if each.node_rank == 9 else each for each in nodes]
    start = time.process_time()

    rows = STAGE.judge(cluster(late))

    assert time.process_time() - start < 1
    assert [(row.id, row.verdict, row.node) for row in rows] == [
        ("fabric.bandwidth", "ok", ""), ("transport.nccl", "unknown", "n9"), ("transport.nccl", "ok", ""),
    ]  # fmt: skip


JUNK: list[Any] = [
    None,
    "x",
    [],
    {},
    {"seconds": "1"},
    {"seconds": -1},
    {"size": 1e300},
    {"seconds": 1e-300, "size": SIZE},
]


@pytest.mark.parametrize("junk", JUNK)
def test_strange_answers_never_raise(junk: Any) -> None:
    said = dict.fromkeys(("nccl", "sent", "origins", "masters", "correct", "mpi"), junk)
    said["speeds"] = {"eth0": junk}
    for value in (junk, said, {**answer(0.01), "sent": junk, "speeds": junk}):
        nodes = [node(0, value), node(1, value)]
        assert STAGE.judge(cluster(nodes, framework="mpi"))
