"""Who may call the simulator, as whom, and to do what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hpcpack.simulator import Simulator, SimulatorError, listed

pytestmark = pytest.mark.exhaustive

USERS = {"alice": "User", "bob": "User", "olga": "JobOperator", "jack": "JobAdministrator"}


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    """One node, and a user of each role; the password of HPC\\alice is alice:1."""
    others = ["HPC\\%s:%s:1:%s" % (name, name, role) for name, role in USERS.items()]
    simulator = Simulator.start(
        str(tmp_path_factory.mktemp("crowd")), 1, other_user=others, no_cached_credentials=True, no_namespaces=True
    )
    yield simulator
    simulator.stop()


def as_(name: str) -> dict[str, Any]:
    return {"auth": ("HPC\\" + name, name + ":1")}


def acting_as(name: str) -> dict[str, Any]:
    return {"headers": {"x-ms-as-user": name}}


@pytest.mark.parametrize(
    "auth", [None, ("HPC\\alice", "wrong"), ("nobody", "x"), ("HPC\\alice", ""), ("OTHER\\alice", "alice:1")], ids=str
)
def test_wrong_credentials(crowd: Simulator, auth: tuple[str, str] | None) -> None:
    answer = crowd.call("GET", "/cluster/version", auth=auth)
    assert (answer.status_code, answer.headers["WWW-Authenticate"].split()[0]) == (401, "Basic")
    assert "alice:1" not in answer.text


@pytest.mark.parametrize("header", ["Basic", "Basic !!", "Basic YQ==", "Bearer YTpi", "Basic /w=="])
def test_headers_that_hold_no_credentials(crowd: Simulator, header: str) -> None:
    assert crowd.call("GET", "/jobs", auth=None, headers={"Authorization": header}).status_code == 401


@pytest.mark.parametrize("name", ["alice", "hpc\\ALICE", "HPC\\alice"])
def test_names_with_and_without_domain(crowd: Simulator, name: str) -> None:
    job = crowd.ask("POST", "/jobs", [], auth=(name, "alice:1"))
    assert crowd.job(job)["Owner"] == "HPC\\alice"


def test_roles(crowd: Simulator) -> None:
    roles = {name: crowd.ask("GET", "/cluster/userRoles", **as_(name)) for name in USERS}
    assert roles == {name: ["User"] if role == "User" else ["User", role] for name, role in USERS.items()}
    assert crowd.ask("GET", "/cluster/userRoles") == ["User", "Administrator"]


@pytest.mark.parametrize(
    ("name", "changes", "ends"), [("bob", 403, 403), ("olga", 403, 204), ("jack", 204, 204), ("alice", 204, 204)]
)
def test_a_job_is_its_owners(crowd: Simulator, name: str, changes: int, ends: int) -> None:
    path = "/jobs/%d" % crowd.ask("POST", "/jobs", [], **as_("alice"))
    assert crowd.call("GET", path, **as_(name)).status_code == 200
    assert crowd.call("PUT", path, listed({"Name": "mine"}), **as_(name)).status_code == changes
    assert crowd.call("POST", path + "/envVariables", listed({"A": "b"}), **as_(name)).status_code == changes
    assert crowd.call("POST", path + "/cancel", **as_(name)).status_code == ends


def test_only_administrators_change_the_cluster(crowd: Simulator) -> None:
    for name in USERS:
        assert crowd.call("POST", "/cluster/nodeGroups", {"Name": "mine"}, **as_(name)).status_code == 403
        assert crowd.call("POST", "/cluster/nodes/127.0.0.2/operations/stop", **as_(name)).status_code == 403
    assert crowd.call("POST", "/cluster/nodeGroups", {"Name": "ours"}).status_code == 200


def test_acting_as_another_user(crowd: Simulator) -> None:
    for name in (None, "jack"):
        job = crowd.ask("POST", "/jobs", [], **(as_(name) if name else {}), **acting_as("hpc\\bob"))
        assert crowd.job(job)["Owner"] == "HPC\\bob"
    job = crowd.ask("POST", "/jobs", [])
    assert crowd.call("POST", "/jobs/%d/cancel" % job, **acting_as("bob")).status_code == 403
    assert crowd.ask("GET", "/cluster/userRoles", **acting_as("bob")) == ["User"]


@pytest.mark.parametrize("name", ["alice", "olga"])
def test_plain_users_act_as_nobody_else(crowd: Simulator, name: str) -> None:
    answer = crowd.call("GET", "/jobs", **as_(name), **acting_as("bob"))
    assert (answer.status_code, "administrators" in answer.json()) == (403, True)


def test_acting_as_somebody_unknown(crowd: Simulator) -> None:
    assert crowd.call("GET", "/jobs", **acting_as("HPC\\zoe")).status_code == 403


def test_without_other_users_any_name_will_do(hpcpack: Simulator) -> None:
    job = hpcpack.ask("POST", "/jobs", [], **acting_as("HPC\\zoe"))
    assert hpcpack.job(job)["Owner"] == "HPC\\zoe"


def test_credentials_with_the_submission(crowd: Simulator) -> None:
    job = crowd.new_job("true")
    path, user = "/jobs/%d/submit" % job, {"UserName": crowd.user}
    refused = crowd.call("POST", path)
    assert (refused.status_code, "not cached" in refused.json()) == (403, True)
    assert crowd.call("POST", path, listed({**user, "Password": "no"})).status_code == 403
    assert crowd.job(job)["State"] == "Configuring"
    crowd.ask("POST", path, listed({**user, "Password": crowd.password, "Project": "given late"}))
    assert crowd.wait(job)["State"] == "Finished"
    assert crowd.job(job)["Project"] == "given late"
    assert crowd.password not in str(crowd.ask("GET", "/jobs/%d" % job))


@pytest.mark.parametrize("text", ["alice", "alice:pw", "alice:pw:Boss", ":pw:User", "alice::User"])
def test_users_that_are_none(tmp_path: Any, text: str) -> None:
    with pytest.raises(SimulatorError, match="NAME:PASSWORD:ROLE"):
        Simulator.start(str(tmp_path), 1, other_user=text)
