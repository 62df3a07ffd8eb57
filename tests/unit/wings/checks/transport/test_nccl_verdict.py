"""What is said of NCCL's choice, of one node and of sixty-four."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import pytest
from tests.unit.wings.checks.transport import nccl_lines as logs

from worldsize.state.check_rows import CheckRow
from worldsize.wings.checks.agent.cluster import CheckedNode
from worldsize.wings.checks.agent.transport.nccl_log import complete_lines, parse_nccl_log
from worldsize.wings.checks.agent.transport.nccl_verdict import nccl_rows

IB_PORT = {"device": "mlx5_0", "port": 1, "state": "ACTIVE", "rate_gbps": 200.0, "layer": "InfiniBand", "netdev": "ib0"}
ROCE_PORT = {**IB_PORT, "layer": "Ethernet", "netdev": "enP1s1"}
OPA_PORT = {**IB_PORT, "device": "hfi1_0", "layer": "OmniPath"}
EFA_PORTS = [{**IB_PORT, "device": "rdmap%ds27" % n, "layer": "Unspecified", "netdev": ""} for n in range(4)]


def node(text: str, ports: Any = (IB_PORT,), rank: int = 0, label: str = "node11", **answer: Any) -> CheckedNode:
    summary = json.loads(json.dumps(parse_nccl_log(complete_lines(text))._asdict()))
    answers = {"bandwidth": {"nccl": summary, **answer}}
    return CheckedNode(rank, label, label, facts={"fabric": list(ports)}, answers=answers)


def only_row(text: str, count: int = 2, **rest: Any) -> CheckRow:
    rows = nccl_rows([node(text, **rest)], count)
    assert len(rows) == 1
    assert rows[0].id == "transport.nccl"
    return rows[0]


@pytest.mark.parametrize(
    ("origin", "because"),
    [
        ("the image", "NCCL_IB_DISABLE=1 comes from the image"),
        ("the job", "NCCL_IB_DISABLE=1 is set by the job"),
        ("/etc/nccl.conf", "NCCL_IB_DISABLE=1 comes from /etc/nccl.conf"),
        ("", "NCCL_IB_DISABLE=1 is set"),
    ],
)
def test_sockets_where_infiniband_is(origin: str, because: str) -> None:
    row = only_row(logs.SOCKETS_DISABLED, origins={"NCCL_IB_DISABLE": origin})

    assert (row.node, row.verdict, row.value) == ("node11", "bad", "TCP over eth0")
    said = "node11 has InfiniBand (mlx5_0:1, 200 Gb/s), NCCL used TCP over eth0, because %s; " % because
    assert row.hint.startswith(said)


@pytest.mark.parametrize(
    ("text", "because"),
    [
        (logs.SOCKETS_NO_VERBS, "because NCCL could not open libibverbs.so;"),
        (logs.SOCKETS_NO_DEVICE, "because NCCL found no device that it can use;"),
        (logs.SOCKETS_NO_MATCH, "because NCCL_IB_HCA=mlx5_9 is set and names no adapter that NCCL can use;"),
        (logs.SOCKETS_BY_NET, "because NCCL_NET=Socket is set;"),
        (logs.SOCKETS_NO_PLUGIN, "because NCCL found no device that it can use;"),
        (logs.SOCKETS_UNEXPLAINED, "NCCL used TCP over eth0; set NCCL_DEBUG=INFO"),
    ],
)
def test_why_sockets_were_used(text: str, because: str) -> None:
    row = only_row(text)

    assert row.verdict == "bad"
    assert because in row.hint


def test_a_variable_that_did_nothing_is_no_reason() -> None:
    """NCCL_IB_DISABLE does not reach the plugin IBext (NVIDIA/nccl-tests#373)."""
    assert only_row(logs.ROCE_BONDED_PLUGIN, ports=[ROCE_PORT]).verdict == "ok"


@pytest.mark.parametrize(
    ("ports", "verdict"),
    [
        ([], "ok"),
        ([{**IB_PORT, "state": "DOWN"}], "ok"),
        ([{**IB_PORT, "state": "INIT"}], "ok"),
        ([{**IB_PORT, "state": "4: ACTIVE"}], "bad"),
        ([{**ROCE_PORT, "netdev": "enp8s0"}], "bad"),
        ([{**ROCE_PORT, "netdev": "eth0"}], "warning"),
        ([ROCE_PORT], "warning"),
        ([ROCE_PORT, {**ROCE_PORT, "device": "mlx5_1", "netdev": "storage"}], "warning"),
        ([ROCE_PORT, *({**ROCE_PORT, "device": "mlx5_%d" % n, "netdev": "r%d" % n} for n in range(1, 9))], "bad"),
        ([{**ROCE_PORT, "rate_gbps": 0}, {**ROCE_PORT, "device": "mlx5_1", "netdev": "r1"}], "warning"),
        ([OPA_PORT], "warning"),
        (EFA_PORTS, "bad"),
        (EFA_PORTS[:1], "warning"),
        ("junk", "ok"),
        ([{"device": 7}, None, "x"], "ok"),
    ],
)
def test_how_bad_sockets_are_depends_on_what_is_there(ports: Any, verdict: str) -> None:
    row = only_row(logs.SOCKETS_DISABLED, ports=ports, masters={"enP1s1": "eth0"})

    assert row.verdict == verdict


def test_a_vlan_of_a_bond_is_carried_by_the_bonds_ports() -> None:
    text = logs.SOCKETS_DISABLED.replace("[0]eth0:", "[0]bond0.526:")
    ports = [{**ROCE_PORT, "netdev": name} for name in ("e1", "e2")]

    assert only_row(text, ports=ports, masters={"e1": "bond0", "e2": "bond0"}).verdict == "warning"


def test_efa_without_its_plugin() -> None:
    row = only_row(logs.SOCKETS_NO_PLUGIN, ports=EFA_PORTS)

    assert "node11 has EFA (rdmap0s27:1, 200 Gb/s and 3 more), NCCL used TCP over eth0" in row.hint
    assert "because NCCL found no plugin (libnccl-net.so); install aws-ofi-nccl" in row.hint


def test_libfabric_over_tcp_is_tcp() -> None:
    assert only_row(logs.LIBFABRIC_TCP, ports=EFA_PORTS).verdict == "bad"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (logs.IB, "InfiniBand, GPUDirect RDMA, NVLink and NVLink switch reductions, 1 node"),
        (logs.IB_WITHOUT_GPUDIRECT, "InfiniBand, through host memory, NVLink and NVLink switch reductions, 1 node"),
        (logs.ROCE, "RoCE, GPUDirect RDMA, 1 node"),
        (logs.EFA, "libfabric (efa), GPUDirect RDMA, 1 node"),
        (logs.EFA_NEW_NAME, "libfabric (efa), GPUDirect RDMA, 1 node"),
        (logs.SHARP, "InfiniBand, GPUDirect RDMA, reductions in the network (SHARP), 1 node"),
        (logs.ONE_DOMAIN, "NVLink between nodes, NVLink and NVLink switch reductions, 1 node"),
        (logs.IB_TOO_FAR, "InfiniBand, through host memory, NVLink and NVLink switch reductions, 1 node"),
    ],
)
def test_what_is_right_is_named(text: str, value: str) -> None:
    row = only_row(text)

    assert (row.node, row.verdict, row.value, row.hint) == ("", "ok", value, "")


def test_gpudirect_that_is_possible_and_not_used() -> None:
    row = only_row(logs.IB_THROUGH_HOST)

    assert (row.verdict, row.value) == ("warning", "InfiniBand through host memory")


def test_from_2_30_on_nothing_proves_that_gpudirect_should_have_been_used() -> None:
    assert only_row(logs.IB_2_30_THROUGH_HOST).verdict == "ok"
    assert only_row(logs.IB_THROUGH_HOST.replace("2.27.6", "2.29.7")).verdict == "warning"
    assert only_row(logs.IB_THROUGH_HOST.replace("2.27.6", "2.31.1")).verdict == "ok"
    assert only_row(logs.IB_THROUGH_HOST.replace("NCCL version", "version")).verdict == "ok"


def test_a_rank_that_does_not_name_the_version_has_torchs() -> None:
    one = node(logs.IB_THROUGH_HOST.replace("NCCL version", "version"))
    one = one._replace(facts={**one.facts, "torch": {"nccl": "2.27.5"}})

    assert [row.verdict for row in nccl_rows([one], 2)] == ["warning"]


def test_gpudirect_that_a_variable_keeps_away() -> None:
    text = logs.IB_TOO_FAR + "n1:1:1 [0] NCCL INFO NCCL_NET_GDR_LEVEL set by environment to LOC.\n"

    assert "because NCCL_NET_GDR_LEVEL=LOC is set" in only_row(text).hint


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (logs.NVLINK, "ok"),
        (logs.SHM_ON_NVSWITCH, "warning"),
        (logs.SHM_BETWEEN_PAIRS, "ok"),
        (logs.SHM_BY_VARIABLE, "warning"),
        (logs.SHM_ON_PCIE, "ok"),
    ],
)
def test_shared_memory_inside_a_node(text: str, verdict: str) -> None:
    assert only_row(text, count=1).verdict == verdict


def test_the_variable_that_keeps_gpus_from_nvlink_is_named() -> None:
    row = only_row(logs.SHM_BY_VARIABLE, count=1, origins={"NCCL_P2P_DISABLE": "the job"})

    assert "because NCCL_P2P_DISABLE=1 is set by the job; remove NCCL_P2P_DISABLE from the job" in row.hint


@pytest.mark.parametrize("count", [1, 2, 64])
@pytest.mark.parametrize(
    "answer",
    [
        None,
        {},
        {"nccl": None},
        {"nccl": 3},
        {"nccl": {}},
        {"nccl": {"paths": "x"}},
        {"error": "OSError: no room"},
        "junk",
        {"failure": ["x"]},
    ],
)
def test_without_lines_nothing_is_known(answer: Any, count: int) -> None:
    answers: Mapping[str, Any] = {} if answer is None else {"bandwidth": answer}
    one = CheckedNode(0, "n", "n", facts={"fabric": [IB_PORT]}, answers=answers)

    assert [row.verdict for row in nccl_rows([one], count)] == ["unknown"]


def test_a_log_cut_off_anywhere_is_never_worse_than_unknown() -> None:
    for text in (logs.IB, logs.ROCE, logs.EFA, logs.SHARP):
        for end in range(0, len(text), 11):
            rows = nccl_rows([node(text[:end], ports=[IB_PORT])], 2)
            assert {row.verdict for row in rows} <= {"ok", "unknown"}, text[:end]


def test_64_nodes_are_judged_within_a_second_and_the_bad_ones_named() -> None:
    nodes = [node(logs.IB, rank=rank, label="n%02d" % rank) for rank in range(64)]
    nodes[11] = node(logs.SOCKETS_DISABLED, rank=11, label="n11", origins={"NCCL_IB_DISABLE": "the image"})
    nodes[40] = node(logs.IB_THROUGH_HOST, rank=40, label="n40")
    nodes[50] = nodes[50]._replace(answers={})
    start = time.process_time()

    rows = nccl_rows(nodes, 64)

    assert time.process_time() - start < 1
    assert [(row.node, row.verdict) for row in rows] == [
        ("n11", "bad"),
        ("n40", "warning"),
        ("n50", "unknown"),
        ("", "ok"),
    ]
    assert rows[-1].value.endswith(", 61 nodes")
