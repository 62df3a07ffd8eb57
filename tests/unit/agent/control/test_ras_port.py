"""Whether a node keeps a port for NCCL's RAS, and that no two runs have the same one."""

from __future__ import annotations

from pathlib import Path

import pytest

from worldsize.agent.control import ports
from worldsize.agent.control.ports import reserve_ras_port
from worldsize.errors import RendezvousError
from worldsize.plan.plan import Plan, node_major_layout


def plan_of(**fields: object) -> Plan:
    values: dict = {"environment": {}, "watchdog_timeout": 300.0, "gpus": 8, **fields}
    return Plan("run-7", "t", "lab", 0.0, 0, node_major_layout(1, 1), ("true",), **values)


def test_runs_at_the_same_time_have_ports_of_their_own() -> None:
    found = [reserve_ras_port(plan_of(gpus=gpus), {}) for gpus in (8, 1)]
    assert len({each.port for each in found if each}) == 2


def test_where_the_plan_does_not_know_the_node_tells(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ports, "_GPUS", (str(tmp_path / "nvidiactl"),))
    assert reserve_ras_port(plan_of(gpus=None), {}) is None
    (tmp_path / "nvidiactl").touch()
    assert reserve_ras_port(plan_of(gpus=None), {}) is not None


def test_none_where_nobody_would_ask() -> None:
    assert reserve_ras_port(plan_of(watchdog_timeout=0.0), {}) is None
    assert reserve_ras_port(plan_of(gpus=0), {}) is None


def test_the_users_own_place_stays_and_that_of_an_outer_run_does_not() -> None:
    named = {"NCCL_RAS_ADDR": "localhost:28028"}
    assert reserve_ras_port(plan_of(), named) is None
    assert reserve_ras_port(plan_of(), {**named, "WORLDSIZE_RUN_DIR": "/runs/outer"}) is not None


@pytest.mark.parametrize("error", [RendezvousError("no free port"), OSError(24, "Too many open files")])
def test_a_run_goes_on_without_one(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(ports, "PortReservation", fail)
    assert reserve_ras_port(plan_of(), {}) is None
