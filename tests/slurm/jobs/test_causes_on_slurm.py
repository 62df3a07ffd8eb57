"""What fails on a cluster, `why` explains: the cause, how sure it is, whose it is, what the scheduler says of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from causes.pages import documented_screens
from causes.screen import certain_part
from causes.slurm_case import DOCUMENTED, ORDINARY, SlurmCase, slurm_screen
from causes.tables.slurm_cases import SLURM_CASES
from slurm import groups, machine
from slurm.cluster import Cluster
from slurm.fixtures import skip_without_cluster
from slurm.login import Login, login_of

pytestmark = [pytest.mark.timeout(300), pytest.mark.slurm]
CLOCKS = 0.5
"""Seconds by which two nodes of this machine, which have one clock, may say that theirs differ."""


@pytest.fixture
def place(request: pytest.FixtureRequest, case: SlurmCase) -> Iterator[Login]:
    """The login node of the cluster that the case takes."""
    if case.flavour == ORDINARY:
        yield request.getfixturevalue("login")
        return
    skip_without_cluster(case.flavour.accounting)
    if case.flavour.limits and groups.here(groups.MEMORY) is None:
        pytest.skip("no control group here limits memory for a node")
    with Cluster.start(case.flavour) as cluster, login_of(cluster) as login:
        yield login


PARAMETERS = [
    pytest.param(case, id=case.title, marks=() if case.quick else pytest.mark.exhaustive) for case in SLURM_CASES
]


@pytest.mark.parametrize("case", PARAMETERS)
def test_the_cause_on_a_cluster(place: Login, case: SlurmCase) -> None:
    run = case.provoke(place)
    screen = slurm_screen(place, run)
    cause = screen.data["cause"]
    assert (cause["id"], cause["standing"]) == (case.id, case.standing), screen
    assert (tuple(cause["ranks"]), cause["node"]) == (case.ranks, case.node), screen
    told = [link["text"] for link in screen.data["chain"] if not link["ranks"]]
    assert any(case.confirms in text for text in told) or not case.confirms, screen
    if machine.slurm_version() == DOCUMENTED and not case.varies:
        assert screen.certain == certain_part(documented_screens(case.folder)[case.title])
    check_events(place.json("events", run), case, any("CANCELLED AT" in text for text in told))


def check_events(events: list[Mapping[str, Any]], case: SlurmCase, timed: bool) -> None:
    """In the order of time, from everybody who was there, with the clocks of the nodes compared. `timed`: the scheduler
    has said when it ended the job."""
    times = [event["time"] for event in events]
    assert times == sorted(times)
    sources = {event["source"] for event in events}
    assert {"client", *("node %d" % node for node in case.nodes)} <= sources, events
    assert "scheduler" in sources or not timed, events
    assert next(event["event"] for event in events if event["source"] == "client") == "created"
    began = any(event["event"] == "ranks_started" for event in events)
    for node in case.nodes[1:] if began else ():
        of_node = [event for event in events if event["source"] == "node %d" % node]
        (clock,) = (event["fields"] for event in of_node if event["event"] == "clock")
        assert abs(clock["seconds"]) <= clock["uncertainty"] + 0.01 and clock["uncertainty"] < CLOCKS, clock
