"""What Open MPI chose: its lines, and what is said of them."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from tests.unit.wings.checks.transport import mpi_lines as logs

from worldsize.state.check_rows import CheckRow
from worldsize.wings.checks.agent.cluster import CheckedNode
from worldsize.wings.checks.agent.transport.mpi_log import parse_mpi_log
from worldsize.wings.checks.agent.transport.mpi_verdict import chosen_way, mpi_rows

IB_PORT = {"device": "mlx5_0", "port": 1, "state": "ACTIVE", "rate_gbps": 200.0, "layer": "InfiniBand", "netdev": "ib0"}


def parse(text: str) -> dict[str, Any]:
    return dict(json.loads(json.dumps(parse_mpi_log(text.splitlines()))))


def row_of(text: str, layer: str = "InfiniBand", **more: Any) -> CheckRow:
    answer = {"mpi": {**parse(text), **more}}
    node = CheckedNode(3, "n3", "n3", facts={"fabric": [{**IB_PORT, "layer": layer}]}, answers={"bandwidth": answer})
    (row,) = mpi_rows([node])
    assert row.id == "transport.mpi"
    return row


@pytest.mark.parametrize(
    ("text", "way"),
    [
        (logs.OMPI_4_TCP, ("TCP", "pml ob1, btl tcp")),
        (logs.OMPI_5_TCP, ("TCP", "pml ob1, btl tcp")),
        (logs.OMPI_5_OB1, ("", "pml ob1, btls tcp, uct")),
        (logs.OMPI_4_UCX, ("UCX", "pml ucx")),
        (logs.OMPI_5_UCX, ("UCX", "pml ucx")),
        (logs.UCX_INFINIBAND, ("UCX", "pml ucx, rc_mlx5/mlx5_0:1")),
        (logs.UCX_TCP, ("TCP", "pml ucx, tcp/eth0")),
        (logs.UCX_TOLD_TCP, ("TCP", "pml ucx, UCX_TLS=tcp,self,sm")),
        (logs.PSM2, ("PSM2", "pml cm, mtl psm2")),
        (logs.OFI_EFA, ("EFA", "pml cm, mtl ofi, provider rdmap0s31-rdm")),
        (logs.OFI_TCP, ("TCP", "pml cm, mtl ofi, provider tcp;ofi_rxm")),
        (logs.OFI_SILENT, ("", "pml cm, mtl ofi")),
        ("", ("", "")),
    ],
)
def test_the_way_between_nodes(text: str, way: tuple[str, str]) -> None:
    assert chosen_way(parse(text)) == way


@pytest.mark.parametrize("tls", ["all", "^ib", "rc,tcp,self", "dc_x,tcp", "ib,tcp", "sm,self"])
def test_ucx_that_may_take_more_than_tcp_is_not_told_to_take_tcp(tls: str) -> None:
    assert chosen_way(parse(logs.UCX_TOLD_TCP.replace("tcp,self,sm", tls)))[0] == "UCX"


def test_tcp_where_infiniband_is_with_the_component_that_failed() -> None:
    row = row_of(logs.OMPI_5_TCP)

    assert (row.node, row.verdict, row.value) == ("n3", "bad", "TCP (pml ob1, btl tcp)")
    said = "n3 has InfiniBand, Open MPI used TCP, because its component ucx could not be initialized; "
    assert row.hint.startswith(said)


def test_an_open_mpi_without_ucx() -> None:
    assert "because it was built without ucx" in row_of(logs.OMPI_4_TCP.replace("component ucx", "component x")).hint
    assert "because it was built without psm2" in row_of(logs.OMPI_4_TCP, layer="OmniPath").hint


def test_a_variable_of_the_node_is_the_reason() -> None:
    row = row_of(logs.OMPI_4_TCP, settings={"OMPI_MCA_pml": "ob1"}, origins={"OMPI_MCA_pml": "the image"})

    assert "because OMPI_MCA_pml=ob1 comes from the image; unset OMPI_MCA_pml" in row.hint


@pytest.mark.parametrize(
    ("name", "value", "explains"),
    [
        ("OMPI_MCA_pml", "^ucx", True),
        ("OMPI_MCA_pml", "ucx", False),
        ("OMPI_MCA_btl", "tcp,self", True),
        ("OMPI_MCA_btl", "^openib", False),
        ("UCX_TLS", "tcp", True),
    ],
)
def test_a_variable_that_does_not_lead_to_tcp_is_no_reason(name: str, value: str, explains: bool) -> None:
    assert ("because %s=%s is set" % (name, value) in row_of(logs.OMPI_5_TCP, settings={name: value}).hint) is explains


@pytest.mark.parametrize(("layer", "verdict"), [("Ethernet", "warning"), ("OmniPath", "bad"), ("", "ok")])
def test_how_bad_tcp_is_depends_on_what_is_there(layer: str, verdict: str) -> None:
    assert row_of(logs.OMPI_4_TCP, layer=layer).verdict == verdict


@pytest.mark.parametrize("text", [logs.OMPI_5_OB1, logs.OFI_SILENT])
def test_what_is_not_proven_is_unknown(text: str) -> None:
    assert row_of(text).verdict == "unknown"


def test_without_a_fabric_there_is_nothing_to_be_unsure_of() -> None:
    assert row_of(logs.OMPI_5_OB1, layer="").verdict == "ok"
    assert mpi_rows([CheckedNode(0, "n", "n", answers={"bandwidth": {"mpi_failure": "command not found"}})]) == []


def test_nodes_that_chose_the_same_are_one_row() -> None:
    answer = {"bandwidth": {"mpi": parse(logs.UCX_INFINIBAND)}}
    facts = {"fabric": [IB_PORT]}
    nodes = [CheckedNode(rank, "n", "n%d" % rank, facts=facts, answers=answer) for rank in range(64)]
    nodes[5] = nodes[5]._replace(answers={"bandwidth": {"mpi_failure": "command not found"}})
    rows = mpi_rows(nodes)

    assert [(row.node, row.verdict) for row in rows] == [("n5", "unknown"), ("", "ok")]
    assert rows[0].hint == "command not found"
    assert rows[1].value == "UCX (pml ucx, rc_mlx5/mlx5_0:1), 63 nodes"


STRANGE: tuple[dict[str, Any], ...] = (
    {"pml": 3},
    {"pml": "ob1", "btls": 3},
    {"pml": "ob1", "btls": [[], "tcp"]},
    {"pml": "ucx", "ucx": 1, "variables": []},
    {"pml": "cm", "mtl": None, "provider": []},
    {"pml": "ucx", "ucx": {"inter-node": "x"}},
)


@pytest.mark.parametrize("said", STRANGE)
def test_strange_answers_never_raise(said: dict[str, Any]) -> None:
    node = CheckedNode(0, "n", "n", facts={"fabric": [IB_PORT]}, answers={"bandwidth": {"mpi": said}})

    assert len(mpi_rows([node])) == 1


def test_junk_is_passed_over_quickly() -> None:
    lines = ["select: init of component " * 50_000, "UCX  INFO " + "cfg#1 tag(" * 100_000, "\x00" * 100_000]
    lines += ["mca: bml: Using b%d btl for send to [[1,1],1] on node n%d" % (n, n) for n in range(20_000)]
    lines += ["UCX INFO  x inter-node cfg#1 tag(%s)" % " ".join(map(str, range(n, n + 50))) for n in range(2000)]
    start = time.process_time()

    said = parse_mpi_log(lines)

    assert time.process_time() - start < 2
    assert len(json.dumps(said)) < 50_000
