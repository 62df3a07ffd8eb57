"""Roles that read TF_CONFIG, as plain Python programs: who they are, that everybody reaches everybody, how it ends."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from driver import Cli, wait_for

# Each task listens at its own address; every other one says its name there, and those of the cluster are waited for.
TASK = """
import json, os, socket, sys, time
config = json.loads(os.environ["TF_CONFIG"])
kind, index = config["task"]["type"], config["task"]["index"]
peers = [(name, i, address) for name, all in sorted(config["cluster"].items()) for i, address in enumerate(all)]
listener = None
for name, i, address in peers:
    if (name, i) == (kind, index):
        listener = socket.create_server(("", int(address.rpartition(":")[2])))
for name, i, address in peers:
    if (name, i) != (kind, index):
        host, _, port = address.rpartition(":")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                socket.create_connection((host, int(port))).sendall(("%s%d " % (kind, index)).encode())
                break
            except ConnectionRefusedError:
                time.sleep(0.02)
heard = set()
while listener and len(heard - {"evaluator0 "}) < len(peers) - 1:
    heard.add(listener.accept()[0].recv(99).decode())
print(json.dumps({"task": [kind, index], "config": config, "rank": os.environ["RANK"]}), flush=True)
open("outputs/said-%s%d" % (kind, index), "w").close()
exec(os.environ.get("THEN_" + kind.upper() + str(index), os.environ.get("THEN_" + kind.upper(), "")))
"""
FOREVER = "time.sleep(1000)"
ALL_SAID = "while len([name for name in os.listdir('outputs') if name.startswith('said-')]) < %d: time.sleep(0.02)"


def job(cli: Cli, nodes: int, distribution: dict[str, Any], then: dict[str, str], **keys: Any) -> str:
    cli.write("task.py", TASK)
    value = {
        "command": "python task.py",
        "code": ".",
        "distribution": {"type": "tensorflow", **distribution},
        "resources": {"instance_count": nodes},
        "environment_variables": {"THEN_" + role.upper(): text for role, text in then.items()},
        **keys,
    }
    return cli.write("job.yml", json.dumps(value))


def said(cli: Cli, ranks: int) -> list[dict[str, Any]]:
    texts = [cli.read(cli.latest(), "attempt-0", "logs", "rank-%05d.log" % rank) for rank in range(ranks)]
    return [json.loads(text.splitlines()[0]) for text in texts]


def exits(cli: Cli, nodes: int) -> dict[int, tuple[int, bool]]:
    """Each rank's exit code, and whether we had told it to end."""
    found = {}
    for node in range(nodes):
        record = json.loads(cli.read(cli.latest(), "attempt-0", "exit", "node-%04d.json" % node))
        found.update({rank["rank"]: (rank["code"], rank["stopped"]) for rank in record["ranks"]})
    return found


def test_workers_alone_have_no_ps_key_and_all_end_by_themselves(cli: Cli) -> None:
    run = cli.run(job(cli, 2, {}, {"worker1": "time.sleep(0.3)"}))
    first, second = said(cli, 2)
    assert first["config"].keys() == {"cluster", "task", "environment"} and first["config"]["environment"] == "cloud"
    assert list(first["config"]["cluster"]) == ["worker"] and len(first["config"]["cluster"]["worker"]) == 2
    assert first["config"]["cluster"] == second["config"]["cluster"]
    assert (first["task"], second["task"]) == (["worker", 0], ["worker", 1])
    assert exits(cli, 2) == {0: (0, False), 1: (0, False)} and cli.status(run)["state"] == "SUCCEEDED"


def test_the_chiefs_end_is_the_runs_and_a_success(every_place: Cli) -> None:
    cli = every_place
    distribution = {"worker_count": 2, "parameter_server_count": 1, "chief": True, "evaluator": True}
    result = cli("run", job(cli, 2, distribution, {"worker": FOREVER, "ps": FOREVER, "chief": ALL_SAID % 5}, grace=60))
    assert (result.code, cli.status()["state"]) == (0, "SUCCEEDED"), result
    tasks = {tuple(each["task"]): each for each in said(cli, 5)}
    assert sorted(tasks) == [("chief", 0), ("evaluator", 0), ("ps", 0), ("worker", 0), ("worker", 1)]
    for task, each in tasks.items():
        assert each["config"].keys() == {"cluster", "task", "environment"} and each["config"]["environment"] == "cloud"
        assert each["config"]["task"] == {"type": task[0], "index": task[1]}
        assert each["config"]["cluster"] == tasks["chief", 0]["config"]["cluster"]
    cluster = tasks["chief", 0]["config"]["cluster"]
    assert {role: len(addresses) for role, addresses in cluster.items()} == {"chief": 1, "worker": 2, "ps": 1}
    every = [address for addresses in cluster.values() for address in addresses]
    hosts = {address.partition(":")[0] for address in every}
    assert len(set(every)) == 4 and (hosts == {"127.0.0.1"} or (len(hosts) == 2 and "127.0.0.1" not in hosts))
    assert tasks["chief", 0]["rank"] == "0"
    ended = exits(cli, 2)
    asked = {int(each["rank"]) for task, each in tasks.items() if task[0] in ("worker", "ps")}
    assert {rank: value for rank, value in ended.items() if rank in asked} == dict.fromkeys(asked, (143, True))
    assert [value for rank, value in ended.items() if rank not in asked] == [(0, False)] * 2


def test_without_a_chief_worker_0_decides_and_the_others_have_the_grace_to_finish(cli: Cli) -> None:
    """How long that is, and for whom: tests/unit/agent/control/test_leader_tracker.py."""
    leads = ALL_SAID % 3 + "\nwith open('outputs/leader', 'w') as file: file.write(str(os.getpid()))"
    leader_ended = (
        "\nwhile not (os.path.exists('outputs/leader') and open('outputs/leader').read()): time.sleep(0.02)"
        "\nwhile os.path.exists('/proc/' + open('outputs/leader').read()): time.sleep(0.02)"
        "\nprint('finished', flush=True)"
    )
    then = {"ps": FOREVER, "worker0": leads, "worker1": ALL_SAID % 3 + leader_ended}
    run = cli.run(job(cli, 2, {"worker_count": 2, "parameter_server_count": 1}, then, grace=60))
    ranks = {tuple(each["task"]): int(each["rank"]) for each in said(cli, 3)}
    ended = exits(cli, 2)
    assert [ended[ranks["worker", 0]], ended[ranks["worker", 1]]] == [(0, False), (0, False)]
    assert ended[ranks["ps", 0]] == (143, True)
    assert "finished" in cli.read(run, "attempt-0", "logs", "rank-%05d.log" % ranks["worker", 1])


def test_an_evaluator_is_waited_for_and_then_ended(cli: Cli) -> None:
    then = {"worker": ALL_SAID % 3, "evaluator": FOREVER}  # it may still connect to both until it has said so
    cli.run(job(cli, 2, {"worker_count": 2, "evaluator": True}, then, grace=0.5))
    assert sorted(exits(cli, 2).values()) == [(0, False), (0, False), (143, True)]


@pytest.mark.exhaustive(unless=["ps0"])
@pytest.mark.parametrize("role", ["worker1", "ps0", "chief0"])
def test_a_task_that_fails_ends_all(cli: Cli, role: str) -> None:
    distribution = {"worker_count": 2, "parameter_server_count": 1, "chief": True}
    then = {"ps": FOREVER, "worker": FOREVER, "chief": FOREVER, role: "sys.exit(7)"}
    result = cli("run", job(cli, 2, distribution, then))
    status = cli.status()
    assert (result.code, status["state"], status["failure"]["code"]) == (7, "FAILED", 7)


def test_a_worker_that_fails_while_others_finish_is_a_failure(cli: Cli) -> None:
    then = {"ps": FOREVER, "worker1": "time.sleep(0.3); sys.exit(9)"}
    result = cli("run", job(cli, 2, {"worker_count": 2, "parameter_server_count": 1}, then, grace=60))
    assert (result.code, cli.status()["state"]) == (9, "FAILED")


def test_no_node_without_a_task_and_no_processes_per_node(cli: Cli) -> None:
    result = cli("run", job(cli, 3, {"worker_count": 2}, {}))
    assert result.code == 2 and "2 tasks on 3 nodes would leave some nodes without a task" in result.err
    result = cli("run", job(cli, 1, {"worker_count": 2}, {}), "-w", "1x2")
    assert result.code == 2 and "a tensorflow job lays out roles" in result.err


def test_a_job_that_sets_its_own_tf_config_is_refused(cli: Cli) -> None:
    result = cli("run", job(cli, 2, {}, {}, environment_variables={"TF_CONFIG": "{}"}))
    assert result.code == 2 and "TF_CONFIG" in result.err and "a different value for each rank" in result.err


def test_the_dry_run_shows_it_with_ports_to_come(cli: Cli) -> None:
    path = job(cli, 2, {"parameter_server_count": 1}, {})
    shown = cli.ok("run", path, "--dry-run").out
    assert '"worker": ["127.0.0.1:<port>", "127.0.0.1:<port>"], "ps": ["127.0.0.1:<port>"]' in shown
    assert '"task": {"type": "ps", "index": 0}' in shown


def test_runs_at_once_share_no_port(cli: Cli) -> None:
    """What has ended may leave its ports to the next."""
    go = os.path.join(cli.root, "go")
    worker = "while not os.path.exists(%r): time.sleep(0.02)" % go
    path = job(cli, 1, {"worker_count": 2, "parameter_server_count": 2}, {"worker": worker, "ps": FOREVER})
    runs = [cli.submit(path) for _ in range(3)]
    said = [cli.path(run, "outputs", "said-" + task) for run in runs for task in ("worker0", "worker1")]
    wait_for(lambda: all(map(os.path.exists, said)), 60)
    open(go, "w").close()
    used: list[str] = []
    for run in runs:
        cli.ok("wait", run)
        with open(cli.path(run, "attempt-0", "logs", "rank-00000.log")) as file:
            for addresses in json.loads(file.readline())["config"]["cluster"].values():
                used += addresses
    assert len(used) == len(set(used)) == 12


def test_azures_extra_property_is_reported_and_not_fatal(cli: Cli) -> None:
    distribution = {"parameter_server_count": 1, "worker_count": 2, "added_property": 7}
    result = cli("run", job(cli, 2, distribution, {"ps": FOREVER}))
    assert result.code == 0 and "distribution.added_property: is not a key of tensorflow; ignored" in result.err
    assert os.path.exists(cli.path(cli.latest(), "attempt-0", "logs", "rank-00002.log"))
