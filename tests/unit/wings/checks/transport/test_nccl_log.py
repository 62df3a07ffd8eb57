"""NCCL's lines, of each kind and each release."""

from __future__ import annotations

import json
import time

import pytest
from tests.unit.wings.checks.transport import nccl_lines as logs

from worldsize.wings.checks.agent.transport.nccl_log import parse_nccl_log
from worldsize.wings.checks.agent.transport.nccl_summary import NcclSummary, merge, summary_of
from worldsize.wings.checks.agent.transport.nccl_verdict import is_tcp, network_of


def parse(text: str) -> NcclSummary:
    return parse_nccl_log(text.splitlines())


@pytest.mark.parametrize(
    ("text", "network", "tcp"),
    [
        (logs.IB, "IB", False),
        (logs.ROCE, "IB", False),
        (logs.ROCE_BONDED_PLUGIN, "IBext_v8", False),
        (logs.SOCKETS_DISABLED, "Socket", True),
        (logs.SOCKETS_NO_VERBS, "Socket", True),
        (logs.EFA, "AWS Libfabric", False),
        (logs.EFA_NEW_NAME, "Libfabric", False),
        (logs.LIBFABRIC_TCP, "AWS Libfabric", True),
        (logs.SHARP, "IBext_v8", False),
        (logs.NVLINK, "Socket", True),
        (logs.SHM_ON_PCIE, "", False),
        ("", "", False),
    ],
)
def test_the_network_is_the_one_that_connections_go_through(text: str, network: str, tcp: bool) -> None:
    summary = parse(text)

    assert network_of(summary) == network
    assert is_tcp(summary) is tcp


def test_infiniband_with_all_that_its_lines_prove() -> None:
    assert parse(logs.IB) == NcclSummary(
        version="2.27.6", network="IB", devices=("mlx5_0:1/IB", "mlx5_1:1/IB"), used=("mlx5_0:1/IB", "mlx5_1:1/IB"),
        paths={"NET/IB/GDRDMA": 2, "P2P": 1}, gdr="enabled", variables={"NCCL_IB_HCA": "mlx5"}, notes=("no plugin",),
        links="switch", nvls=True,
    )  # fmt: skip


LIBFABRIC_GDR = "n1:1:1 [0] NCCL INFO NET/AWS Libfabric : GPU Direct RDMA Enabled for HCA 0 'rdmap16s27-rdm'"
TOO_FAR = "n1:1:1 [0] NCCL INFO GPU Direct RDMA Disabled for "
BONDED = ("mlx5_2:1/RoCE", "mlx5_3:1/RoCE", "mlx5_0:1/RoCE", "mlx5_1:1/RoCE")


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        (logs.ROCE, "version", "2.19.3"),  # which stands alone in its line
        (logs.ROCE_BONDED_PLUGIN, "devices", BONDED),
        (logs.ROCE_BONDED_PLUGIN, "used", BONDED[2:]),
        (logs.ROCE, "used", ("mlx5_10:1/RoCE",)),
        (logs.IB.replace("NET/IB/1/", "NET/IB/2/"), "used", ("mlx5_0:1/IB", "?")),
        (logs.IB_2_30, "devices", ("mlx5_0:1/IB", "mlx5_1:1/IB", "mlx5_2:1/IB")),  # without rails and planes
        (logs.IB_2_30, "paths", {"NET/IB/GDRDMA": 1, "SHM": 1}),
        (logs.IB_2_30, "links", "switch"),
        (logs.IB_2_30, "notes", ()),  # a library that was found at the second try is not missing
        (logs.SOCKETS_NO_VERBS_2_30, "notes", ("no verbs",)),
        (logs.SOCKETS_NO_VERBS, "notes", ("no verbs",)),
        (logs.SOCKETS_NO_PLUGIN, "notes", ("no plugin", "no device")),
        (LIBFABRIC_GDR, "gdr", "enabled"),
        (TOO_FAR + "GPU ca000 / HCA 0 (distance 7 > 4)", "distance", "distance 7 > 4"),  # 2.18
        (TOO_FAR + "GPU 3 / HCA 1f (distance 9 > 5)", "distance", "distance 9 > 5"),
        (TOO_FAR + "GPU 3 / NET 0 (x, distance 7 > 5)", "distance", "distance 7 > 5"),  # 2.29
        (logs.SHARP, "paths", {"NET/IBext_v8/GDRDMA": 1, "COLLNET/SHARP/GDRDMA": 2}),
        (logs.SHARP, "devices", ("ibp0:1/IB", "ibp1:1/IB")),
        (logs.SOCKETS_DISABLED, "variables", {"NCCL_IB_DISABLE": "1"}),
        (logs.SOCKETS_NO_MATCH, "variables", {"NCCL_IB_HCA": "mlx5_9"}),
        (logs.SOCKETS_BY_NET, "variables", {"NCCL_NET": "Socket"}),
        (logs.EFA, "provider", "efa"),
        (logs.LIBFABRIC_TCP, "provider", "tcp;ofi_rxm"),
        (logs.NVLINK, "nvls", True),
        (logs.NVLS_SWITCHED_OFF, "nvls", False),
        (logs.NVLINK.replace("is available", "is not available"), "nvls", False),
        (logs.NVLINK, "one_domain", False),
        (logs.ONE_DOMAIN, "one_domain", True),
    ],
)
def test_what_single_lines_prove(text: str, field: str, value: object) -> None:
    assert getattr(parse(text), field) == value


def test_colours_dates_and_a_launchers_prefix_change_nothing() -> None:
    plain = parse(logs.IB)
    dated = "".join("[2026-03-04 05:06:07.123] %s\n" % line for line in logs.IB.splitlines())
    coloured = "".join("\x1b[1;32m[1,0]<stdout>:%s\x1b[0m\n" % line for line in logs.IB.splitlines())

    assert parse(dated) == plain
    assert parse(coloured) == plain


def test_two_messages_in_one_line_are_two() -> None:
    line = (
        "n1:1:1 [0] NCCL INFO Using network IBn1:2:2 [1] NCCL INFO NCCL_IB_DISABLE set by environment to 0."
        "[2026-03-04 05:06:07] n1:2:2 [1] misc/a.cc:12 NCCL WARN Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0"
    )
    summary = parse(line)

    assert summary.paths == {"NET/IB": 1}
    assert summary.variables == {"NCCL_IB_DISABLE": "0"}


def test_ranks_whose_lines_are_mixed_are_one_summary() -> None:
    second = logs.IB.replace("n1:4001", "n1:4002").splitlines()
    mixed = [line for pair in zip(logs.IB.splitlines(), second, strict=True) for line in pair]

    assert parse_nccl_log(mixed) == merge([parse(logs.IB), parse_nccl_log(second)])
    assert parse_nccl_log(mixed).paths == {"NET/IB/GDRDMA": 4, "P2P": 2}


def test_a_log_that_ends_anywhere_never_says_something_else() -> None:
    for end in range(0, len(logs.IB), 7):
        summary = parse(logs.IB[:end])
        assert network_of(summary) in ("", "I", "IB")
        assert not is_tcp(summary)


def test_socket_once_named_is_not_forgotten() -> None:
    summary = merge([parse(logs.IB), parse(logs.SOCKETS_DISABLED), parse(logs.IB)])

    assert summary.network == "Socket"
    assert network_of(summary) == "Socket"


def test_a_summary_survives_json() -> None:
    summary = parse(logs.IB)

    assert summary_of(json.loads(json.dumps(summary._asdict()))) == summary


NO_SUMMARIES = (
    None,
    7,
    "IB",
    [],
    {"paths": 3},
    {"paths": {"NET": []}},
    {"devices": "mlx5"},
    {"used": [1]},
    {"nvls": 1},
)


@pytest.mark.parametrize("value", NO_SUMMARIES)
def test_what_is_no_summary_is_none(value: object) -> None:
    assert summary_of(value) is None


def test_junk_and_endless_lines_are_passed_over_quickly() -> None:
    lines = ["NCCL INFO " * 100_000, "NCCL INFO Channel 00 : " + "via " * 100_000, "a:1:" * 500_000, "\x00\xff\ud800"]
    lines += ["n1:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/%d/0" % number for number in range(5000)]
    lines += ["n1:1:1 [0] NCCL INFO NCCL_%d set by environment to %s." % (n, "x" * 3000) for n in range(5000)]
    start = time.process_time()

    summary = parse_nccl_log(lines)

    assert time.process_time() - start < 2
    assert len(summary.paths) <= 100
    assert sum(map(len, summary.variables.values())) <= 100 * 200
