"""Before a run and at its submission: what is checked, how often the head node is asked, what is said."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import wait_for

from hpcpack.life import PATIENCE, Client
from hpcpack.simulator import PASSWORD, Simulator

TORCHRUN = "distribution={type: pytorch, launcher: torchrun}"


@pytest.fixture
def another(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Client]:
    """The client of a cluster that is as the test's parameter says."""
    simulator = Simulator.start(str(tmp_path), **{"nodes": 2, **request.param})
    made = Client(simulator)
    yield made
    made.close()
    simulator.stop()


def like(**options: object) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("another", [options], indirect=True, ids=[" ".join(map(str, options.items()))])


# where its runs lie


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a directory to any group")
def test_a_share_that_a_group_may_write_to_is_refused(client: Client, tmp_path: Path) -> None:
    """Found by review: who may write to a run's directory has its tasks execute what he likes."""
    client.environ["XDG_CONFIG_HOME"] = str(tmp_path)
    os.chown(client.root, 0, 65534)
    os.chmod(client.root, 0o770)
    refused = client("run", "-w", "1x1", "--", "true")
    assert refused.code == 1 and "may write to it" in refused.err and "worldsize config trust" in refused.err
    client.ok("config", "trust", client.root)
    assert client("run", "-w", "1x1", "--", "true").code == 0


# how often the head node is asked


@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_a_submission_costs_six_requests_at_most_and_one_for_each_node(client: Client, nodes: int) -> None:
    with client.simulator.counting() as requests:
        run = client.submit("-w", "%dx2" % nodes, "--", "true")
    assert len(requests) <= 6 + nodes, requests
    assert sum(line.startswith("POST ") for line in requests) == nodes + 2
    assert client.ended(run)["state"] == "SUCCEEDED"


@like(generation="2016")
def test_an_older_head_costs_no_more_than_that(another: Client) -> None:
    another.configure('template = "Default"')
    with another.simulator.counting() as requests:
        run = another.submit("-w", "2x1", "--", "true")
    assert len(requests) <= 8, requests
    assert another.ended(run)["state"] == "SUCCEEDED"
    rows = another.json("nodes")
    assert [row["name"] for row in rows] == another.simulator.node_names and all(row["cpus"] == 4 for row in rows)
    another.configure('generation = "2016"')
    with another.simulator.counting() as requests:
        another.run("-w", "2x1", "--", "true")
    assert not any("/cluster/nodes" in line for line in requests), requests


def test_a_dry_run_shows_the_requests_and_makes_none(client: Client) -> None:
    client.configure('priority = "Highest"', 'nodes = ["cn03", "cn01"]')
    with client.simulator.counting() as requests:
        text = client.ok("run", "-w", "2x2", "--dry-run", "--", "python", "-c", "pass").out
    assert all(line.startswith("GET ") for line in requests)
    for line in (
        "# https://localhost:%s/hpc, as HPC\\hpcadmin;" % client.simulator.url.rpartition(":")[2],
        "    Priority=Highest",
        "    RequestedNodes=cn03,cn01",
        "    RequiredNodes=cn01",
        "    CommandLine=python3 -I -S -c 'import os,runpy,sys;f=os.open(sys.argv[1],os.O_NOFOLLOW|os.O_DIRECTORY);",
        "WORLDSIZE_RUN_DIR=/app/runs/RUN",
        "POST /jobs/{job}/submit",
    ):
        assert any(shown.startswith(line) for shown in text.splitlines()), line
    assert (
        PASSWORD not in text
        and client.simulator.share not in text.replace("the snapshot of", "").split("# the command")[0]
    )


def test_what_was_said_is_what_was_sent(client: Client) -> None:
    client.configure('nodes = ["cn04", "cn02"]', 'job_properties = { Progress = "7" }')
    client.job("hostname; echo $CCP_JOBID", limits={"timeout": 50}, hpcpack={"project": "p 17", "exclusive": True})
    run = client.run("job.yml")
    job = client.number(run)
    assert client.ok("logs", run).lines == ["0:0: cn04", "1:1: cn02", "×2: %d" % job]
    sent = client.simulator.job(job)
    assert (sent["Project"], sent["IsExclusive"], sent["Progress"], sent["RuntimeSeconds"]) == (
        "p 17",
        "True",
        "7",
        "120",
    )
    task = client.simulator.task(job, 2)
    assert task["RequiredNodes"] == "cn02" and len(task["CommandLine"]) < 480
    assert "RequiredNodes=cn02" in client.read(run, "submission.txt")


# what is wrong before anything is created


@pytest.mark.parametrize(
    ("lines", "words", "says"),
    [
        (['nodes = ["cn01", "cn11"]'], ["-w", "2"], "there is no node cn11"),
        (['nodes = ["cn01"]'], ["-w", "2"], "compute.hpcpack.nodes: 1 nodes are named, and the run has 2"),
        (['node_group = "GPUs"'], ["-w", "1"], "no node is in a group GPUs"),
        (['template = "Gold"'], ["-w", "1"], "there is no job template Gold"),
        ([], ["-w", "5"], "-w: 5 nodes are asked for, and there are 4"),
        (["gpus_per_node = 2"], ["-w", "2x3"], "3 processes per node, but a node has 2 GPUs"),
        (['runs_dir = "/tmp/runs"'], ["-w", "1"], "compute.hpcpack.runs_dir: /tmp/runs is not on the share"),
        (['job_properties = { MinNodes = "9" }'], ["-w", "1"], "use resources.instance_count"),
        (['rdzv_endpoint = "cn09:29400"'], ["-w", "2", "--set", TORCHRUN], "cn09"),
        (['python = "%s"' % ("/opt" + "/long" * 80)], ["-w", "1"], "characters, and HPC Pack takes 480"),
        (['password = "x"'], ["-w", "1"], "no file"),
    ],
)  # fmt: skip
def test_mistakes_are_said_and_nothing_is_created(
    client: Client, lines: list[str], words: list[str], says: str
) -> None:
    before, jobs = client.runs(), client.jobs()
    client.configure(*lines)
    result = client("run", *words, "--", "true")
    assert result.code == 2 and says in result.err, result
    assert client.runs() == before and client.jobs() == jobs


def test_inputs_must_lie_on_the_share_and_may_be_called_as_the_nodes_do(client: Client, tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("here")
    inputs = {"data": {"type": "uri_file", "path": str(tmp_path / "data.txt")}}
    client.job("cat ${{inputs.data}}", inputs=inputs)
    result = client("run", "job.yml")
    assert result.code == 2 and "inputs.data.path: %s is not on the share" % (tmp_path / "data.txt") in result.err
    assert "copy it to the share" in result.err
    name = "data-%s.txt" % os.path.basename(client.root)
    with open(os.path.join(client.simulator.share, name), "w") as file:
        file.write("there")
    inputs = {"data": {"type": "uri_file", "path": "/app/" + name}}
    outputs = {"model": {"path": "/app/models-" + name}}
    client.job(
        "cat ${{inputs.data}}; cp ${{inputs.data}} ${{outputs.model}}/m-$RANK; echo $WORLDSIZE_INPUT_DATA",
        inputs=inputs,
        outputs=outputs,
    )
    run = client.run("job.yml")
    assert client.ok("logs", run, "--rank", "0", "--raw").out == "there/app/%s\n" % name
    with open(os.path.join(client.simulator.share, "models-" + name, "m-1")) as file:
        assert file.read() == "there"


def test_a_script_may_lie_on_the_nodes_alone_or_on_the_share(client: Client) -> None:
    client.write("tool.py", "print('found')\n")
    there = "/app/%s/project/tool.py" % os.path.basename(client.root)
    assert client.ok("run", "-w", "1", "--", "python3", there).lines == ["0:0: found"]
    missing = client("run", "-w", "1", "--", "python3", there + ".py")
    assert missing.code == 2 and "script not found" in missing.err
    elsewhere = client("run", "-w", "1", "--", "python3", "/opt/of/the/nodes.py")
    assert elsewhere.code == 2 and "can't open file '/opt/of/the/nodes.py'" in elsewhere.out, "it was tried there"


def test_a_node_that_is_offline(client: Client) -> None:
    client.simulator.operate("cn02", "takeOffline")
    wait_for(lambda: client.simulator.node("cn02")["State"] == "Offline")
    client.configure('nodes = ["cn01", "cn02"]')
    result = client("run", "-w", "2", "--", "true")
    assert result.code == 2 and "node cn02 starts no tasks: an administrator took it offline" in result.err
    client.configure()
    result = client("run", "-w", "2", "--", "hostname")
    assert result.code == 0 and "cn02" not in result.out
    run = client.submit("-w", "4", "--", "hostname")
    status = client.status(run)
    assert status["state"] == "QUEUED" and status["message"], status
    client.simulator.operate("cn02", "bringOnline")
    assert client.ended(run)["state"] == "SUCCEEDED"


# credentials and certificates


def test_a_wrong_password_or_none(client: Client) -> None:
    before = client.runs()
    wrong = client("run", "-w", "1", "--", "true", WORLDSIZE_HPCPACK_PASSWORD="not it")
    assert (
        wrong.code == 2 and "refuses HPC\\hpcadmin: wrong user or password" in wrong.err and "not it" not in wrong.err
    )
    none = client("run", "-w", "1", "--", "true", WORLDSIZE_HPCPACK_PASSWORD="")
    assert none.code == 2
    for way in ("WORLDSIZE_HPCPACK_PASSWORD", "keyring set", "type it when asked"):
        assert way in none.err
    assert client.runs() == before
    run = client.running()
    for password in ("not it", ""):
        status = json.loads(client("status", run, "-o", "json", WORLDSIZE_HPCPACK_PASSWORD=password).out)
        assert status["state"] == "RUNNING" and "password" in status["message"]
    refused = client("cancel", run, WORLDSIZE_HPCPACK_PASSWORD="not it")
    assert refused.code != 0 and "wrong user or password" in refused.err
    client.ok("cancel", run, "--now")
    assert client.ended(run)["state"] == "CANCELLED"


@like(certificate_days=-2)
def test_an_expired_certificate(another: Client) -> None:
    result = another("run", "-w", "1", "--", "true")
    assert (
        result.code == 2
        and "its certificate has expired" in result.err
        and "administrators must renew it" in result.err
    )
    assert another.simulator.requests() == [] and another.runs() == []


def test_a_certificate_of_an_unknown_authority_and_verification_switched_off(client: Client) -> None:
    client.configure(replace={"ca_file": "# ca_file"})
    result = client("run", "-w", "1", "--", "true")
    assert result.code == 2 and "not issued by an authority known here" in result.err and "ca_file" in result.err
    client.configure("verify = false", replace={"ca_file": "# ca_file"})
    result = client("run", "-w", "1", "--", "true")
    assert result.code == 0 and "the head's certificate is not verified" in result.err
    run = client.latest()
    assert client.handle(run)["verify"] is False and "its certificate not verified" in client.read(
        run, "submission.txt"
    )


def test_each_command_that_asks_an_unverified_head_says_so_once(client: Client) -> None:
    """Found by review: `run` alone said it, and all others sent the password as well."""
    client.configure("verify = false", replace={"ca_file": "# ca_file"})
    submitted = client("submit", "-w", "1", "--", "sleep", "600")
    run = submitted.out.strip()
    others = [("nodes",), ("status", run), ("list",), ("wait", run, "--timeout", "0"), ("cancel", run)]
    for found in (submitted, *(client(*words) for words in others)):
        assert found.err.count("certificate is not verified (verify = false)") == 1, found
        assert "notice: " in found.err and "not verified" not in found.out
    client("wait", run)
    settled = client("status", run)
    assert settled.err == "" and "CANCELLED" in settled.out, "nobody is asked any more"


def test_the_password_is_written_nowhere(client: Client) -> None:
    """Neither in a run's directory, whatever it runs, nor in the home."""
    client.job("env; cat /proc/*/cmdline | tr '\\\\0' ' '", setup=["env"])
    run = client.run("job.yml")
    client("run", "-w", "9", "--", "true")
    for top in (client.home, client.path(run)):
        for folder, _, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                if not os.path.islink(path):
                    with open(path, "rb") as file:
                        assert PASSWORD.encode() not in file.read(), path


@like(no_cached_credentials=True)
def test_a_head_that_has_no_credentials_of_ours_is_given_them(another: Client) -> None:
    run = another.run("-w", "2", "--", "hostname")
    assert another.ok("logs", run).lines == ["0:0: cn01", "1:1: cn02"]


@like(other_user="HPC\\you:secret:User")
def test_an_administrator_acts_on_behalf_of_somebody(another: Client) -> None:
    another.configure("as_user = 'HPC\\you'")
    run = another.run("-w", "1", "--", "true")
    assert another.simulator.job(another.number(run))["Owner"].lower() == "hpc\\you"
    assert another.handle(run)["as_user"] == "HPC\\you" and "on behalf of HPC\\you" in another.read(
        run, "submission.txt"
    )


# a head node that is away, a client that is killed


def test_a_head_that_is_away_for_a_while_gets_the_run_once(client: Client) -> None:
    with client.simulator.away():
        submitting = client.start("submit", "-w", "2", "--", "true")
        time.sleep(14)  # longer than a connection is waited for
    out, err = submitting.communicate(timeout=60)
    assert submitting.returncode == 0, err
    run = out.decode().strip()
    assert client.ended(run)["state"] == "SUCCEEDED"
    wait_for(lambda: [job["State"] for job in client.jobs_of(run)].count("Finished") == 1, PATIENCE)
    assert all(job["State"] in ("Finished", "Canceled", "Configuring") for job in client.jobs_of(run))


def test_a_head_that_nobody_hears_from_is_spoken_of_at_once(client: Client) -> None:
    """Nothing listens at its port: submitting waits for it, and the person knows why."""
    client.configure(replace={client.simulator.url.rpartition(":")[2]: "1"})
    with client.start("submit", "-w", "1", "--", "true") as process:
        assert process.stderr is not None
        first = process.stderr.readline().decode()
        assert "cannot be reached: Connection refused: nothing was checked there" in first
        assert "retried for 75 s when the run is submitted" in first
        wait_for(lambda: client.json("list"))
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    run = client.latest()
    wait_for(lambda: client.status(run)["state"] == "LOST", PATIENCE)


@pytest.mark.exhaustive
def test_a_client_that_is_killed_before_it_submits_leaves_a_run_that_is_lost(client: Client) -> None:
    with client.simulator.away():
        submitting = client.start("submit", "-w", "2", "--", "true")
        wait_for(lambda: any(run for run in client.json("list") if run["state"] == "PREPARING"), PATIENCE)
        submitting.kill()
        submitting.communicate()
    run = client.latest()
    wait_for(lambda: client.status(run)["state"] == "LOST", PATIENCE)
    assert "interrupted while it was being" in client.status(run)["message"]
    assert all(job["State"] == "Configuring" for job in client.jobs_of(run))
    client.ok("cancel", run)
