"""Ray's cluster of a run: who starts what on which node, with which options and which environment."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from worldsize.agent.control.rendezvous import Rendezvous
from worldsize.agent.launchers.rank_process import NodeLaunch
from worldsize.common.atomic_files import write_json
from worldsize.compute.base import ComputeFacts
from worldsize.errors import PlanError
from worldsize.jobspec.job import Job, Resources
from worldsize.plan.plan import Plan
from worldsize.plan.rank_variables import Host, RendezvousResult
from worldsize.plan.run_paths import RunPaths
from worldsize.service.submission.make_plan import make_plan
from worldsize.wings.frameworks.agent.ray_launcher import (
    LAUNCHER,
    device_share,
    node_order,
    ray_environment,
    start_options,
    token_file,
)
from worldsize.wings.frameworks.ray import RayDistribution

SHARED = ComputeFacts(None, 8, shared_host=True)


def plan(nodes: int = 2, environment: dict[str, str] | None = None, **keys: object) -> Plan:
    job = Job("python train.py", resources=Resources(nodes), distribution=RayDistribution(**keys))
    job = job._replace(environment_variables=environment or {})
    return make_plan(job, SHARED, "local", RunPaths("/runs/20260101-000000-000abc"), 1.5, ())


def launch(made: Plan, node: int, paths: RunPaths, environ: dict[str, str], *names: str) -> NodeLaunch:
    hosts = tuple(
        Host(name, 8, "127.0.0.1" if len(set(names)) == 1 else f"10.0.0.{number}", (7000 + number,))
        for number, name in enumerate(names)
    )
    return NodeLaunch(made, RendezvousResult(hosts[0].address, 6400, hosts), made.nodes[node], paths, environ)


PATHS = RunPaths("/runs/r")


def test_the_command_runs_once_and_the_run_is_over_with_it() -> None:
    made = plan(3)
    assert [[rank.role for rank in node.ranks] for node in made.nodes] == [["head"], ["worker"], ["worker"]]
    assert (made.launcher, made.leaders, made.ports, made.conventions) == ("ray", (0,), "node", ("azureml",))
    on = [LAUNCHER.processes(launch(made, node, PATHS, {"PATH": "/bin"}, "a", "b", "c"))[0] for node in (0, 1)]
    assert on[0].argv[-3:] == ("bash", "-c", "python train.py") and on[1].argv[-1].endswith("/launch/ray-1.json")
    assert on[0].environment["RAY_ADDRESS"] == "10.0.0.0:6400" and "WORLD_SIZE" not in on[0].environment
    assert plan(1).leaders == ()


def test_what_ray_is_started_with_on_nodes_of_their_own() -> None:
    made = plan(port=6379, worker_node_additional_args="--num-cpus=3 --resources='{\"a\": 1}'")
    head, worker = (start_options(launch(made, node, PATHS, {}, "a", "b")) for node in (0, 1))
    assert {"--head", "--port=6379", "--block", "--include-dashboard=false", "--node-ip-address=10.0.0.0"} <= {*head}
    assert worker[-3:] == ["--address=10.0.0.0:6379", "--num-cpus=3", '--resources={"a": 1}']
    assert "--head" not in worker and not any(word.startswith("--object-store") for word in head)


def test_virtual_nodes_share_out_their_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)))
    made = plan()
    at = launch(made, 1, PATHS, {"CUDA_VISIBLE_DEVICES": "4,5,6"}, "vm", "vm")
    words = start_options(at)
    assert {"--num-cpus=3", "--node-ip-address=127.0.0.2", "--address=127.0.0.2:6400"} <= {*words}
    assert any(word.startswith("--object-store-memory=") for word in words)
    assert node_order(at)["set"]["CUDA_VISIBLE_DEVICES"] == "6"
    assert [[*device_share("abcde", 3, place)] for place in range(3)] == [["a", "b"], ["c", "d"], ["e"]]


def test_the_dashboard_starts_where_it_is_asked_for() -> None:
    assert {"--include-dashboard=true", "--dashboard-host=127.0.0.1", "--dashboard-port=7000"} <= {
        *start_options(launch(plan(include_dashboard=True), 0, PATHS, {}, "a", "b"))
    }


def test_the_cluster_has_a_token_of_the_run() -> None:
    rank = {"RAY_AUTH_TOKEN": "of the shell", "PATH": "/bin"}
    made = ray_environment(rank, {}, PATHS)
    assert made["RAY_AUTH_MODE"] == "token" and made["RAY_AUTH_TOKEN_PATH"] == token_file(PATHS)
    assert "RAY_AUTH_TOKEN" not in made
    assert ray_environment({"RAY_AUTH_MODE": "disabled"}, {"RAY_AUTH_MODE": "disabled"}, PATHS)["RAY_AUTH_MODE"] == (
        "disabled"
    )


def met(place: Path) -> RunPaths:
    """Of a node that knows where the head is."""
    paths = RunPaths(str(place))
    os.makedirs(paths.attempt_dir)
    write_json(paths.rendezvous, Rendezvous("10.0.0.0", 6400, 6401, "ab" * 32)._asdict(), private=True)
    return paths


def test_nodes_without_a_common_directory_have_one_secret(tmp_path: Path) -> None:
    """It is not the run's own, which it is made of. A node that has not met its head has none, and says so."""
    secrets = set()
    for node in (0, 1):
        paths = met(tmp_path / str(node))
        LAUNCHER.prepare(launch(plan(), node, paths, {}, "a", "b"))
        secrets.add(Path(token_file(paths)).read_text())
    (secret,) = secrets
    assert len(secret) == 64 and secret != "ab" * 32
    with pytest.raises(OSError, match="is not there"):
        LAUNCHER.prepare(launch(plan(), 1, RunPaths(str(tmp_path / "alone")), {}, "a", "b"))


def test_what_a_node_is_told_is_this_users_alone(tmp_path: Path) -> None:
    paths = met(tmp_path)
    for node in (0, 1):
        LAUNCHER.prepare(launch(plan(), node, paths, {}, "a", "b"))
    files = {
        name: os.stat(os.path.join(paths.launch_dir, name)).st_mode & 0o777 for name in os.listdir(paths.launch_dir)
    }
    assert files == {"ray-0.json": 0o600, "ray-1.json": 0o600, "ray-token": 0o600}
    order = json.loads((tmp_path / "attempt-0/launch/ray-1.json").read_text())
    assert order["nodes"] == 2 and {"WORLDSIZE_ERROR_FILE", "WORLDSIZE_RANK", "OMP_NUM_THREADS"} <= {*order["unset"]}
    assert (
        "OMP_NUM_THREADS"
        not in node_order(launch(plan(environment={"OMP_NUM_THREADS": "2"}), 0, paths, {}, "a"))["unset"]
    )


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"address": "10.0.0.9:6379"}, "does not join another"),
        ({"head_node_additional_args": "--num-cpus='1"}, "cannot be split into words"),
        ({"head_node_additional_args": "--port=1"}, "--port is set by worldsize itself"),
        ({"worker_node_additional_args": "--address a"}, "--address is set by worldsize itself"),
    ],
)
def test_keys_that_cannot_be_followed(keys: dict[str, str], message: str) -> None:
    with pytest.raises(PlanError, match=message) as caught:
        plan(**keys)
    assert str(caught.value.where).startswith("distribution.")
