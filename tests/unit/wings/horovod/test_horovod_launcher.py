"""Horovod's variables, the interface that gloo takes, and who waits for it; its training is in tests/frameworks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from driver import wait_for

from worldsize.agent.launchers.rank_process import NodeLaunch
from worldsize.agent.posix.processes import HELPER_OF
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.rank_environment import scrub
from worldsize.plan.rank_variables import Host, RendezvousResult
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.horovod.agent.rendezvous_server import (
    INTERFACE,
    interface_of,
    start_rendezvous_server,
    with_interface,
)
from worldsize.wings.horovod.distribution import HorovodDistribution

WORLD = RendezvousResult("10.1.2.3", 29871, (Host("a", 8, "127.0.0.1", (30001,)), Host("a", 8, "127.0.0.1", (30002,))))


def plan_of(launcher: str = "direct") -> Plan:
    return Plan("run-7", "t", "lab", 1.0, 0, node_major_layout(2, 2), ("python", "t.py"), {}, "horovod", launcher)


def variables(plan: Plan) -> dict[str, str]:
    """Horovod's, of the last rank."""
    *_, last = NodeLaunch(
        plan, WORLD, plan.nodes[1], RunPaths("/runs/r"), {"PATH": "/bin", "HOROVOD_RANK": "9"}
    ).ranks()
    return {name[8:]: value for name, value in last.environment.items() if name.startswith("HOROVOD_")}


def test_what_horovodrun_would_set() -> None:
    place = {"RANK": "3", "SIZE": "4", "LOCAL_RANK": "1", "LOCAL_SIZE": "2", "CROSS_RANK": "1", "CROSS_SIZE": "2"}
    server = {"GLOO_RENDEZVOUS_ADDR": "10.1.2.3", "GLOO_RENDEZVOUS_PORT": "30001", "HOSTNAME": "127.0.0.2"}
    by_gloo = {"CONTROLLER": "gloo", "CPU_OPERATIONS": "gloo"}
    assert variables(plan_of()) == {**place, **server, **by_gloo}
    assert variables(plan_of("mpirun")) == {**place, **server}


def test_they_are_nobody_elses() -> None:
    assert not variables(plan_of()._replace(framework="pytorch"))
    assert scrub({"HOROVOD_RANK": "1", "HOROVOD_FUSION_THRESHOLD": "0"}) == {"HOROVOD_FUSION_THRESHOLD": "0"}


@pytest.mark.parametrize("launcher", ["direct", "mpirun"])
def test_every_node_finds_a_port(launcher: str) -> None:
    arranged = HorovodDistribution(2, launcher).arrange(2)
    assert (arranged.launcher, arranged.ports, [len(node.ranks) for node in arranged.nodes]) == (
        launcher,
        "node",
        [2, 2],
    )


def test_gloo_takes_the_interface_that_leads_to_the_head_unless_the_job_says_another() -> None:
    assert interface_of("127.0.0.1") == "lo" and interface_of("203.0.113.9") is None
    plan = plan_of()
    assert with_interface(plan, WORLD, 1, {})[INTERFACE] == "lo"
    assert with_interface(plan, WORLD, 1, {INTERFACE: "ib0"})[INTERFACE] == "ib0"
    assert INTERFACE not in with_interface(plan._replace(environment={INTERFACE: "ib0"}), WORLD, 1, {})


def test_the_rendezvous_server_is_a_helper_of_the_agent_and_no_ranks(tmp_path: Path) -> None:
    """So no warning tells of it when the ranks have ended."""
    paths = RunPaths(str(tmp_path))
    os.makedirs(paths.logs_dir)
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho $%s of ${WORLDSIZE_RANK-none}\n" % HELPER_OF)
    python.chmod(0o700)
    plan = plan_of()._replace(python=str(python))
    world = WORLD._replace(hosts=tuple(host._replace(ports=(0,)) for host in WORLD.hosts))
    start_rendezvous_server(plan, world, paths, {"PATH": os.defpath, "WORLDSIZE_RANK": "0"})
    log = Path(paths.launcher_log(0, plan.framework))
    wait_for(lambda: log.read_text().endswith("\n"))
    assert log.read_text() == "%d of none\n" % os.getpid()
