"""exec, shell, nodes, requeue and `worldsize hpcpack` on a simulated cluster, where it differs from other computes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
from driver import Cli, all_up, heard, wait_for
from terminal import Terminal
from tests.environments.wheels import Links

from hpcpack.life import PATIENCE
from hpcpack.simulator import Simulator


class Client(Cli):
    """The command line beside the share of a simulated cluster."""

    def __init__(self, simulator: Simulator) -> None:
        super().__init__(tempfile.mkdtemp(dir=simulator.share))
        self.simulator = simulator
        self.environ.update(simulator.environ())
        with open(simulator.config) as file:
            self.write("worldsize.toml", file.read())

    def configure(self, line: str) -> None:
        """One key more of the compute."""
        self.write("worldsize.toml", "%s%s\n" % (self.read_project("worldsize.toml"), line))

    def running(self, world: str = "2x1", script: str = "touch outputs/up-$RANK; sleep 120") -> str:
        run = self.submit("-w", world, "--", "sh", "-c", script)
        nodes = int(world.partition("x")[0])
        wait_for(lambda: len(os.listdir(self.path(run, "outputs"))) >= nodes and self.has_begun(run), 30)
        return run

    def left(self) -> list[str]:
        """Directories of commands that nobody has removed."""
        directory = os.path.join(self.simulator.share, ".exec-%d" % os.getuid())
        return os.listdir(directory) if os.path.isdir(directory) else []

    def newest_job(self) -> dict[str, str]:
        rows = self.simulator.ask("GET", "/jobs", params={"rowsPerRead": 1, "sortJobsBy": "Id", "asc": "false"})
        return {each["Name"]: each["Value"] for each in rows[0]["Properties"]}


@pytest.fixture
def client(hpcpack: Simulator) -> Iterator[Client]:
    made = Client(hpcpack)
    yield made
    made.close()


@pytest.fixture(scope="module")
def lame(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    """A cluster whose second node lacks the share."""
    simulator = Simulator.start(str(tmp_path_factory.mktemp("lame")), nodes=2, unmounted=["cn02"])
    yield simulator
    simulator.stop()


def test_beside_a_run_nothing_is_asked_of_the_head_but_how_the_run_is(client: Client, hpcpack: Simulator) -> None:
    run = client.running()
    with hpcpack.counting() as requests:
        started = time.monotonic()
        assert sorted(client.ok("exec", run, "--", "hostname").lines) == ["0: cn01", "1: cn02"]
        assert time.monotonic() - started < 30
    assert len(requests) <= 1, requests
    client.ok("cancel", run, "--now")


def test_what_stands_beside_the_ranks_when_they_end_is_not_theirs(client: Client) -> None:
    run = client.running(script="touch outputs/up-$RANK; until test -e outputs/go; do sleep 0.05; done")
    client.ok("exec", run, "--node", "0", "--", "sh", "-c", "setsid sleep 4758 >/dev/null 2>&1 &")
    command = client.start("exec", run, "--", "sh", "-c", "touch outputs/beside; exec sleep 4759")
    wait_for(lambda: os.path.exists(client.path(run, "outputs", "beside")))
    open(client.path(run, "outputs", "go"), "w").close()
    client.ok("wait", run)
    command.communicate(timeout=20)
    assert client.status(run)["warnings"] == []


def test_alone_it_is_a_job_with_a_task_on_each_node(client: Client, hpcpack: Simulator) -> None:
    result = client(
        "exec", "-w", "2", "--timeout", "50", "--", "sh", "-c", "echo $CCP_TASKID; exit $WORLDSIZE_NODE_RANK"
    )
    assert (result.code, sorted(result.lines)) == (1, ["0: 1", "1: 2"])
    job = hpcpack.job(int(client.newest_job()["Id"]))
    assert job["Name"].startswith("worldsize exec ")
    assert [job[name] for name in ("UnitType", "MinNodes", "MaxNodes", "RuntimeSeconds")] == ["Node", "2", "2", "120"]
    assert hpcpack.wait(int(job["Id"]))["State"] == "Failed", "the command's own code"
    for task in (1, 2):
        found = hpcpack.task(int(job["Id"]), task)
        assert len(found["CommandLine"]) <= 480 and found["ExitCode"] == str(task - 1)
    assert not client.left()


def test_every_usable_node_of_the_group(client: Client, hpcpack: Simulator) -> None:
    hpcpack.operate("cn03", "takeOffline")
    wait_for(lambda: hpcpack.node("cn03")["State"] == "Offline")
    result = client("exec", "--all", "-o", "json", "--", "hostname")
    assert [row["stdout"] for row in json.loads(result.out)] == ["cn01\n", "cn02\n", "cn04\n"]
    assert result.err == "1 node is left out: `worldsize nodes --all` gives the reason\n"
    client.configure(hpcpack.group("two", "cn02", "cn04"))
    assert sorted(client.ok("exec", "--all", "--", "hostname").lines) == ["0: cn02", "1: cn04"]


@pytest.mark.exhaustive
def test_a_package_is_installed_on_every_node(client: Client) -> None:
    """As the guide's `pip3 install`, of a package that is made here, into a directory of each node's."""
    links = Links(Path(client.root, "wheels"))
    links.wheel("demo", "1.0")
    client.configure(client.simulator.group("two", "cn02", "cn04"))
    share = client.simulator.share, "/app"
    wheels, target = str(links.directory).replace(*share), os.path.join(client.root, "site").replace(*share)
    install = "python3 -m pip install --quiet --no-index --find-links %s --target %s-$(hostname) demo" % (
        wheels,
        target,
    )
    client.ok("exec", "--all", "--", "sh", "-c", install)
    for node in ("cn02", "cn04"):
        assert os.path.exists(os.path.join(client.root, "site-" + node, "demo.py"))


def test_it_waits_in_the_queue_says_so_and_ctrl_c_takes_it_out(client: Client, hpcpack: Simulator) -> None:
    run = client.running("4x1")
    process = client.start("exec", "-w", "1", "--", "hostname")
    wait_for(lambda: client.newest_job()["State"] == "Queued" and client.newest_job()["Name"] != "worldsize " + run)
    job = int(client.newest_job()["Id"])
    heard(process.stderr, "HPC Pack job %d waits" % job)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, b"")
    assert b"it has not begun" in err
    assert hpcpack.wait(job)["State"] == "Canceled" and not client.left()
    client.ok("cancel", run, "--now")


INTERRUPTED = """
import os, signal, sys
from worldsize.cli.main import main
from worldsize.wings.hpcpack import submission

def interrupted(original):
    def function(*values):
        os.kill(os.getpid(), signal.SIGINT)
        return original(*values)
    return function

setattr(submission, sys.argv[1], interrupted(getattr(submission, sys.argv.pop(1))))
sys.exit(main())
"""


@pytest.mark.exhaustive(unless=["_submit"])
@pytest.mark.parametrize("moment", ["_submit", "_check_accepted"])
def test_ctrl_c_while_it_is_submitted_leaves_nothing(client: Client, hpcpack: Simulator, moment: str) -> None:
    words = [sys.executable, "-c", INTERRUPTED, moment, "exec", "-w", "1", "--", "sleep", "4757"]
    ended = subprocess.run(words, cwd=client.project, env=client.environ, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (130, "worldsize: interrupted\n")
    job = int(client.newest_job()["Id"])
    assert hpcpack.wait(job)["State"] == "Canceled" and not client.left()


@pytest.mark.exhaustive
def test_a_client_that_is_killed_takes_its_job_along(client: Client, hpcpack: Simulator) -> None:
    process = client.start("exec", "-w", "2", "--", "sh", "-c", "echo up; sleep 4751")
    all_up(process, 2)
    job = int(client.newest_job()["Id"])
    process.kill()
    process.communicate()
    assert hpcpack.wait(job)["State"] == "Failed"
    wait_for(lambda: not client.left())


@pytest.mark.exhaustive
def test_a_job_whose_client_has_gone_while_it_waited_executes_nothing(client: Client, hpcpack: Simulator) -> None:
    run = client.running("4x1")
    process = client.start("exec", "-w", "1", "--", "touch", client.root + "/executed")
    wait_for(lambda: client.newest_job()["State"] == "Queued")
    job = int(client.newest_job()["Id"])
    process.kill()
    process.communicate()
    client.ok("cancel", run, "--now")
    assert hpcpack.wait(job)["State"] == "Failed"
    assert not os.path.exists(client.root + "/executed")
    wait_for(lambda: not client.left())


def test_a_job_cancelled_by_others_is_told(client: Client, hpcpack: Simulator) -> None:
    process = client.start("exec", "-w", "2", "--", "sh", "-c", "echo up; sleep 4752")
    all_up(process, 2)
    hpcpack.ask("POST", "/jobs/%s/cancel" % client.newest_job()["Id"], "not now")
    _, err = process.communicate(timeout=PATIENCE)
    ended = re.findall(rb"exit code 1\d\d on nodes? ([01,]+) ", err)
    assert process.returncode != 0 and sorted(b",".join(ended).split(b",")) == [b"0", b"1"], (
        "by INT or TERM, as they arrived: %r" % err
    )


@pytest.mark.exhaustive
def test_a_node_that_dies_is_lost_and_the_others_are_heard(client: Client, hpcpack: Simulator) -> None:
    client.configure('nodes = "cn01,cn02"')
    go = "/app/%s/project/go" % os.path.basename(client.root)
    script = "echo up; until test -e %s; do sleep 0.1; done; echo $(hostname) done" % go
    process = client.start("exec", "-w", "2", "--", "sh", "-c", script)
    all_up(process, 2)
    hpcpack.kill_node("cn02")
    client.write("go", "")
    out, err = process.communicate(timeout=40)
    assert b"0: cn01 done" in out
    assert b"lost before it ended: node 1 (cn02)" in err, err
    assert process.returncode == 1


def test_the_head_may_be_away(client: Client, hpcpack: Simulator) -> None:
    process = client.start("exec", "-w", "2", "--fold", "off", "--", "sh", "-c", "echo up; sleep 5; echo done")
    all_up(process, 2)
    with hpcpack.away():
        time.sleep(6)
        out, err = process.communicate(timeout=15)
    assert (process.returncode, err) == (0, b""), err
    assert sorted(out.decode().splitlines()) == ["0: done", "1: done"]


def test_a_node_without_the_share_is_named(lame: Simulator) -> None:
    client = Client(lame)
    result = client("exec", "--all", "--", "hostname")
    assert result.lines == ["0: cn01"] and result.code == 1
    assert "lost before it ended: node 1: node cn02 does not see the share at /app" in result.err
    client.configure('nodes = "cn02"')
    nobody = client("exec", "-w", "1", "--", "hostname")
    assert nobody.code == 1 and "cn02 does not see the share at /app" in nobody.err
    assert "`worldsize hpcpack share`" in nobody.err and not client.left()
    client.close()


def test_check_proves_the_share_and_says_what_nodes_have(client: Client) -> None:
    found = client.json("hpcpack", "check")
    names = ["cn01", "cn02", "cn03", "cn04"]
    assert (found["run"], found["nodes"]) == (None, names) and found["verdict"] in ("ok", "warning")
    rows = [{row["node"]: row for row in found["rows"] if row["id"] == "hpcpack." + name} for name in PER_NODE]
    for seen in rows:
        assert list(seen) == names and {row["verdict"] for row in seen.values()} == {"ok"}
    _, shares, pythons, gpus = rows
    torch = {row["node"]: row["value"].partition("+")[0] for row in found["rows"] if row["id"] == "hpcpack.torch"}
    assert torch == dict.fromkeys(names, version("torch").partition("+")[0] if find_spec("torch") else "none")
    for name in names:
        assert re.fullmatch(r"there and back in \d+\.\d\d s", shares[name]["value"])
        assert pythons[name]["value"].count(".") == 2 and gpus[name]["value"] == "none"
    features = [row["what"] for row in found["rows"] if row["id"] == "hpcpack.share.features"]
    assert features == ["permissions", "symbolic links", "hard links"]
    fine = {row["id"]: row["value"] for row in found["rows"] if not row["node"] and row["verdict"] == "ok"}
    assert fine["hpcpack.certificate"] == "verified" and client.simulator.user in fine["hpcpack.login"]
    assert fine["hpcpack.share.mounted"] == client.simulator.share
    place = os.path.join(client.simulator.share, "runs-%d" % os.getuid(), ".exec-%d" % os.getuid())
    assert not os.path.isdir(place) or not os.listdir(place)


PER_NODE = ("nodes", "share.visible", "python", "gpus")


def test_check_names_the_node_that_cannot(lame: Simulator) -> None:
    client = Client(lame)
    result = client("hpcpack", "check")
    assert result.code == 1
    assert re.match(r"bad      hpcpack\.nodes +cn02: a task: node cn02 does not see the share at /app", result.lines[0])
    assert re.search(r"ok +hpcpack\.share\.visible +cn01: there and back in \d+\.\d\d", result.out)
    assert result.lines[-1].startswith("cn02: bad; ")
    client.close()


def test_check_finds_gpus(client: Client) -> None:
    """By what nvidia-smi prints on a node; `python` of the compute sets its PATH here."""
    tools = os.path.join(client.root, "tools")
    os.mkdir(tools)
    smi = "#!/bin/sh\nfor i in 0 1; do echo 'NVIDIA H100 80GB HBM3, 81559, 550.54.15'; done\n"
    node = client.simulator.share, "/app"
    python = '#!/bin/sh\nPATH=%s:$PATH exec python3 "$@"\n' % tools.replace(*node)
    for name, text in (("nvidia-smi", smi), ("python", python)):
        with open(os.path.join(tools, name), "w") as file:
            file.write(text)
        os.chmod(file.name, 0o755)
    path = os.path.join(tools, "python").replace(*node)
    client.configure('python = "%s"\n%s' % (path, client.simulator.group("two", "cn01", "cn02")))
    found = client.json("hpcpack", "check")
    rows = {(row["node"], row["id"]): row for row in found["rows"]}
    assert rows["cn01", "hpcpack.gpus"]["value"] == "2 × NVIDIA H100 80GB HBM3"
    assert rows["cn01", "hpcpack.driver"]["value"] == "550.54.15" and found["verdict"] == "warning"
    advice = rows["", "hpcpack.gpus"]
    assert advice["value"] == "not configured; every node has 2"
    assert advice["hint"] == "gpus_per_node = 2 in [compute.hpcpack]"


@pytest.mark.exhaustive
def test_nodes_without_the_gpus_that_are_configured_are_no_success(client: Client) -> None:
    client.configure("gpus_per_node = 8")
    result = client("hpcpack", "check")
    assert result.code == 1 and result.lines[-1].startswith("cn01, cn02, cn03, cn04: bad; "), result
    assert "cn01, cn02, cn03, cn04: GPUs: none, and gpus_per_node is 8 (install NVIDIA's driver" in result.lines[0]


@pytest.mark.exhaustive
def test_a_node_that_is_left_out_is_named(client: Client) -> None:
    client.simulator.operate("cn03", "takeOffline")
    found = client.json("hpcpack", "check")
    (row,) = [row for row in found["rows"] if row["node"] == "cn03"]
    assert (row["id"], row["verdict"]) == ("hpcpack.nodes", "warning") and found["nodes"] == ["cn01", "cn02", "cn04"]


def test_a_share_that_is_not_seen_here(client: Client) -> None:
    text = client.read_project("worldsize.toml").replace("node =", 'local = "/no/such/place", node =')
    client.write("worldsize.toml", text)
    result = client("exec", "-w", "1", "--", "true")
    assert result.code == 2 and "share.local" in result.err, result
    result = client("hpcpack", "check")
    assert result.code == 1 and "the share is not mounted here: /no/such/place" in result.lines[0], result
    assert re.search("ok +hpcpack.login ", result.out), "the rest is looked at all the same"


def test_check_at_a_head_that_does_not_let_one_in(client: Client) -> None:
    client.configure(client.simulator.group("one", "cn01"))  # each node that is looked at imports torch
    result = client("hpcpack", "check", WORLDSIZE_HPCPACK_PASSWORD="another")
    assert result.code == 1 and result.lines[0].startswith("bad      hpcpack.login "), result
    assert "wrong user or password" in result.lines[0] and "hpcpack.share.features" in result.out
    text = client.read_project("worldsize.toml")
    client.write("worldsize.toml", re.sub("(?m)^ca_file.*$", "", text))
    result = client("hpcpack", "check", "-o", "json")
    rows = {row["id"]: row for row in json.loads(result.out)["rows"] if not row["node"]}
    assert result.code == 1 and rows["hpcpack.certificate"]["verdict"] == "bad", result
    assert "ca_file" in rows["hpcpack.certificate"]["hint"] and rows["hpcpack.login"]["verdict"] == "unknown"
    client.write("worldsize.toml", re.sub("(?m)^ca_file.*$", "verify = false", text))
    result = client("hpcpack", "check")
    assert result.code == 0 and "the head's certificate is not verified" in result.out
    assert "notice: verify" not in result.err


def test_shell_says_why_it_cannot(client: Client) -> None:
    run = client.running()
    with Terminal(client, "shell", "--node", "1") as screen:
        screen.until("→ worldsize exec %s --node 1 -- COMMAND" % run)
        assert "HPC Pack carries no terminal to a node" in screen.shown
        assert screen.end() == 2
    client.ok("cancel", run, "--now")


def test_requeue_is_the_same_job(client: Client, hpcpack: Simulator) -> None:
    up = "outputs/$WORLDSIZE_ATTEMPT"
    both = "touch %s-$RANK; until test -e %s-0 && test -e %s-1; do sleep 0.02; done" % (up, up, up)
    run = client.run("-w", "2", "--", "sh", "-c", "echo attempt $WORLDSIZE_ATTEMPT; %s; exit 3" % both, code=3)
    job = json.loads(client.read(run, "handle.json"))["job"]
    client.ok("requeue", run)
    assert client("wait", run).code == 3
    assert client.ok("logs", run).lines == ["×2: attempt 1"]
    assert client.ok("logs", run, "--attempt", "0").lines == ["×2: attempt 0"]
    assert json.loads(client.read(run, "handle.json"))["job"] == job and hpcpack.job(job)["RequeueCount"] == "1"


@pytest.mark.exhaustive
def test_a_requeue_waits_for_a_job_that_is_ending(tmp_path: Path) -> None:
    """Its run has ended by then: the agents have said so."""
    simulator = Simulator.start(str(tmp_path), nodes=1, delay=2)
    client = Client(simulator)
    try:
        run = client.submit("--", "sh", "-c", "exit 3")
        job = json.loads(client.read(run, "handle.json"))["job"]
        simulator.wait(job, "Finishing", "Failed", timeout=60)  # whoever looks late may meet the end itself
        client.ok("requeue", run)
        assert client("wait", run).code == 3 and os.path.isdir(client.path(run, "attempt-1"))
    finally:
        client.close()
        simulator.stop()


@pytest.mark.exhaustive
def test_a_requeue_that_is_refused_leaves_the_run_as_it_was(client: Client, hpcpack: Simulator) -> None:
    run = client.run("--", "sh", "-c", "exit 3", code=3)
    before = client.status(run)
    with hpcpack.away():
        away = client("requeue", run, timeout=100)
    assert away.code == 1 and "head node" in away.err
    assert client.status(run) == before
    assert client.ok("requeue", run).code == 0
    assert client("wait", run).code == 3


def test_stacks_of_ranks_beside_which_files_alone_lead(client: Client) -> None:
    client.write("train.py", "import time\nopen('outputs/up', 'w').close()\ntime.sleep(600)\n")
    run = client.submit("-w", "2x1", "--", "python3", "train.py")
    wait_for(lambda: os.path.exists(client.path(run, "outputs", "up")) and client.has_begun(run), 30)

    def asleep() -> bool:
        found = client.json("stacks", "--seconds", "0.2")
        assert found["unanswered"] == [] and [rank["node"] for rank in found["ranks"]] == [0, 1]
        return bool(
            [group["text"] for group in found["groups"]] == ["ranks 0-1: sleep in sleep at train.py:3 in <module>"]
        )

    wait_for(asleep, 30)
    assert client.left() == []
    client.ok("cancel", run, "--now")
