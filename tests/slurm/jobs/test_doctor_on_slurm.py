"""The doctor on a login node of a real cluster."""

from __future__ import annotations

import json

import pytest
from driver import Result
from slurm.cluster import Cluster
from slurm.login import Login


def rows(done: Result) -> dict[str, tuple[str, str]]:
    return {row["id"]: (row["verdict"], row["value"]) for row in json.loads(done.out)["rows"]}


def test_the_cluster_and_what_this_account_may_use(login: Login) -> None:
    done = login("doctor", "-o", "json")
    found = rows(done)
    assert found["slurm.programs"][0] == found["slurm.version"][0] == "ok"
    assert found["slurm.controller"] == ("ok", "Slurmctld(primary) at ctl is UP")
    assert "main (4 nodes, 4 h100 each, infinite)" in found["slurm.partitions"][1]
    assert (
        found["slurm.accounts"][1].endswith("; by default research")
        and "(qos normal,urgent)" in found["slurm.accounts"][1]
    )
    computes = {each["name"]: each["verdict"] for each in json.loads(done.out)["computes"]}
    assert computes["local"] == "ok" and computes["slurm"] != "bad" and done.code == 0


def test_a_controller_that_is_down_is_bad_for_its_compute(login: Login) -> None:
    environ = login.shadow("scontrol", "echo 'Slurmctld(primary) at ctl is DOWN'; exit 1")
    done = login("doctor", **environ)
    assert done.code == 1 and "Not: slurm (slurm, slurm.controller)" in done.out, done
    assert "You can run on: this machine" in done.out


@pytest.mark.exhaustive
def test_a_cluster_without_accounting_needs_no_account(slurm_without_accounting: Cluster) -> None:
    found = rows(Login(slurm_without_accounting)("doctor", "-o", "json"))
    assert found["slurm.accounts"] == ("ok", "none needed: the cluster keeps no accounts")
