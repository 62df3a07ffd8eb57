"""The agent as a program of its own, from agent.pyz, on the oldest Python that is found here."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest
from local_runs import HOOK, marked, until
from pythons import supported, too_old

from worldsize.agent.posix import processes
from worldsize.common.atomic_files import read_json
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.snapshot.agent_bundle import ensure_agent_bundle
from worldsize.state.exit_records import read_exits
from worldsize.state.records import Observation
from worldsize.state.run_state import AttemptFacts, fold
from worldsize.store.runs import create_run

SUPPORTED = supported()
TOO_OLD = too_old()


@pytest.fixture(scope="module")
def bundle(tmp_path_factory) -> str:
    return ensure_agent_bundle(str(tmp_path_factory.mktemp("cache")))


class Agents:
    """A run directory with a plan, and the agents that were started for it."""

    def __init__(self, home: str, bundle: str, script: str, nodes: int = 2, ranks: int = 2, **fields) -> None:
        self.bundle = bundle
        self.paths: RunPaths = create_run(home)
        shutil.copy(HOOK, self.paths.inrank)
        values = {"environment": {}, "grace": 0.5, "silence": 20.0, **fields}
        argv = ("/bin/sh", "-c", script)
        self.plan = Plan(self.paths.run_id, "t", "lab", time.time(), 0, node_major_layout(nodes, ranks), argv, **values)
        with open(self.paths.plan, "w") as file:
            file.write(self.plan.to_json())
        self.started: list[subprocess.Popen[str]] = []

    def start(
        self, *options: str, python: str = SUPPORTED[0], environ: dict[str, str] | None = None
    ) -> subprocess.Popen[str]:
        argv = [python, self.bundle, self.paths.root, *options]
        environ = {"PATH": os.environ["PATH"], **(environ or {})}
        self.started.append(
            subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ, cwd="/")
        )
        return self.started[-1]

    def head(self, *options: str) -> subprocess.Popen[str]:
        return self.start("--node-rank", "0", "--address", "127.0.0.1", *options)

    def ended(self, agent: subprocess.Popen[str]) -> tuple[int, str]:
        """Its exit code and what it said."""
        output, errors = agent.communicate(timeout=20)
        return agent.returncode, output + errors

    def state(self, attempt: int = 0) -> tuple[str, str | None]:
        exits = read_exits(RunPaths(self.paths.root, attempt), len(self.plan.nodes))
        status = fold(
            AttemptFacts(len(self.plan.nodes), True, True, None, False, True, exits, Observation("ended"), True)
        )
        return status.state, status.reason

    def pid_of_first_rank(self) -> int | None:
        with open(self.paths.events(0)) as file:
            found = re.search(r'"pids":\{"0":(\d+)', file.read())
        return int(found[1]) if found else None

    def log(self, rank: int) -> str:
        with open(self.paths.rank_log(rank)) as file:
            return file.read()


@pytest.fixture
def agents(tmp_path, bundle):
    made: list[Agents] = []

    def make(script: str, **options) -> Agents:
        made.append(Agents(str(tmp_path / "home"), bundle, script, **options))
        return made[-1]

    yield make
    for each in made:
        for agent in each.started:
            agent.kill()
            agent.wait()
        for pid in marked(each.paths.run_id):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("python", SUPPORTED, ids=lambda path: os.path.basename(path))
def test_every_module_of_the_bundle_imports_on_every_python(bundle, python):
    program = (
        "import importlib, sys, zipfile\n"
        "files = zipfile.ZipFile(sys.argv[1]).namelist()\n"
        "names = [name[:-3].replace('/', '.') for name in files if name.endswith('.py')]\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "for name in names:\n"
        "    if name.startswith('worldsize.'): importlib.import_module(name)\n"
        "print(len(names))\n"
    )
    done = subprocess.run([python, "-E", "-W", "error", "-c", program, bundle], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20


@pytest.mark.parametrize("python", TOO_OLD or [None], ids=lambda path: os.path.basename(path or "none found"))
def test_a_python_that_is_too_old_is_refused_in_words(bundle, python, tmp_path):
    if python is None:
        compile(b"from __future__ import print_function\n", "x", "exec")
        pytest.xfail("no Python older than 3.8 here")
    done = subprocess.run([python, bundle, str(tmp_path), "--node-rank", "0"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "needs Python 3.8 or newer" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("python", [SUPPORTED[0], SUPPORTED[-1]], ids=["oldest", "newest"])
def test_two_agents_meet_by_file_and_run(agents, python):
    run = agents(
        'echo "$RANK $LOCAL_RANK $NODE_RANK $WORLD_SIZE $MASTER_ADDR $MASTER_PORT $SLURM_NODEID $AZUREML_NODE_COUNT"'
    )
    second = run.start(
        "--node-rank-var", "SLURM_NODEID", python=python, environ={"SLURM_NODEID": "1", "SLURM_PROCID": "9"}
    )
    first = run.start("--node-rank", "0", "--address", "127.0.0.1", python=python)
    assert run.ended(first) == (0, "") and run.ended(second) == (0, "")
    port = read_json(run.paths.rendezvous)["port"]
    expected = ["%d %d %d 4 127.0.0.1 %d %d 2\n" % (rank, rank % 2, rank // 2, port, rank // 2) for rank in range(4)]
    assert [run.log(rank) for rank in range(4)] == expected
    assert run.state() == ("SUCCEEDED", None)


def test_every_agent_exits_with_the_first_failures_code(agents):
    run = agents("[ $RANK = 3 ] && exit 9; sleep 60")
    both = [run.head(), run.start("--node-rank", "1")]
    assert [run.ended(agent) for agent in both] == [(9, ""), (9, "")]
    assert run.state() == ("FAILED", "EXIT_CODE")


def test_an_attempt_has_paths_of_its_own(agents):
    run = agents("echo $TORCHELASTIC_RESTART_COUNT", nodes=1, ranks=1)
    assert run.ended(run.head("--attempt", "2"))[0] == 0
    with open(RunPaths(run.paths.root, 2).rank_log(0)) as file:
        assert file.read() == "2\n"
    assert run.state(attempt=2) == ("SUCCEEDED", None)
    assert os.listdir(run.paths.logs_dir) == []


def test_term_is_a_cancel(agents):
    run = agents("echo ready; exec sleep 60", ranks=1)
    both = [run.head(), run.start("--node-rank", "1")]
    until(lambda: os.path.exists(run.paths.rank_log(1)) and "ready" in run.log(1))
    both[1].send_signal(signal.SIGTERM)
    assert [run.ended(agent)[0] for agent in both] == [143, 143]
    assert run.state() == ("CANCELLED", "CANCELLED_BY_USER")


def test_a_head_that_is_killed_ends_the_others(agents):
    run = agents("echo ready; exec sleep 60", ranks=1)
    head, member = run.head(), run.start("--node-rank", "1")
    until(lambda: os.path.exists(run.paths.rank_log(1)) and "ready" in run.log(1))
    orphan = until(run.pid_of_first_rank)
    head.kill()
    assert run.ended(member)[0] == 1
    assert run.state() == ("FAILED", "NODE_FAILURE")
    until(lambda: processes.start_time(orphan) is None)


def test_one_node_needs_no_address(agents):
    run = agents("echo $MASTER_ADDR", nodes=1, ranks=1)
    assert run.ended(run.start("--node-rank", "0"))[0] == 0
    assert run.log(0) == "127.0.0.1\n"


def test_a_head_without_an_address_names_one_that_is_not_the_loopback(agents):
    run = agents("true", ranks=1)
    head = run.start("--node-rank", "0")
    found = until(lambda: read_json(run.paths.rendezvous) or head.poll() is not None)
    if isinstance(found, dict):
        assert not found["address"].startswith("127.")
        head.terminate()
        run.ended(head)
    else:  # a machine without a network
        assert "set it with --address" in run.ended(head)[1]


def test_a_head_that_never_comes(agents):
    run = agents("true", ranks=1, rendezvous_timeout=0.3)
    code, said = run.ended(run.start("--node-rank", "1"))
    assert code == 1 and "did not publish within 0.3 s" in said
    assert read_exits(run.paths, 2)[0].failure.reason == "RENDEZVOUS"


def test_a_head_that_ends_before_it_has_met_the_others(agents):
    """They end for its reason, with its code, and do not wait for it."""
    run = agents("true", ranks=1, launcher="no-such")
    assert run.ended(run.head())[0] == 2
    run.plan = run.plan._replace(launcher="direct")
    with open(run.paths.plan, "w") as file:
        file.write(run.plan.to_json())
    code, said = run.ended(run.start("--node-rank", "1"))
    head, member = read_exits(run.paths, 2)
    assert code == head.code and "ended with code %d before this node joined it" % code in said
    assert member.failure == head.failure and member.node_rank == 1
    assert run.state() == ("FAILED", head.failure.reason)


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_head_that_does_not_know_the_launcher_says_so_in_its_record(agents, nodes):
    run = agents("true", nodes=nodes, ranks=1, launcher="no-such")
    code, said = run.ended(run.head())
    assert code == 2 and "there is no launcher 'no-such'" in said and "Traceback" not in said
    assert "there is no launcher 'no-such'" in read_exits(run.paths, nodes)[0].failure.message


def test_a_node_that_cannot_reach_the_head_says_why(agents):
    run = agents("true", ranks=1, rendezvous_timeout=0.5, silence=0.9)
    nowhere = {"address": "255.255.255.255", "port": 7, "control_port": 9, "token": ""}
    os.makedirs(os.path.dirname(run.paths.rendezvous), exist_ok=True)
    with open(run.paths.rendezvous, "w") as file:
        json.dump(nowhere, file)
    assert run.ended(run.start("--node-rank", "1"))[0] == 1
    failure = read_exits(run.paths, 2)[0].failure
    where = "node 1 (%s) could not join the head at 255.255.255.255:9" % os.uname().nodename
    assert failure.reason == "RENDEZVOUS" and failure.message.startswith(where + " within 0.5 s: ")
    assert "WORLDSIZE_ADDRESS" in failure.message and "firewall" in failure.message
    with open(run.paths.events(1)) as file:
        told = [json.loads(line)["text"] for line in file if '"unjoined"' in line]
    assert len(told) == 1 and told[0].startswith(where + ": ")


def test_a_node_that_never_comes(agents):
    run = agents("true", ranks=1, rendezvous_timeout=0.3)
    assert run.ended(run.head())[0] == 1
    failure = read_exits(run.paths, 2)[0].failure
    assert failure.reason == "RENDEZVOUS" and "1 of 2 nodes did not join the head (" in failure.message
    assert failure.message.endswith(" within 0.3 s: 1")


@pytest.mark.parametrize(
    ("options", "environ", "words"),
    [
        ((), {}, "one of the arguments --node-rank --node-rank-var"),
        (("--node-rank", "2"), {}, "'2' is not a node of this run, which has nodes 0 to 1"),
        (("--node-rank", "-1"), {}, "invalid int value: '-1'"),
        (("--node-rank", "one"), {}, "invalid int value"),
        (("--node-rank-var", "SLURM_NODEID"), {}, "SLURM_NODEID: not set"),
        (("--node-rank-var", "SLURM_NODEID"), {"SLURM_NODEID": "x"}, "'x' is not a node"),
        (("--node-rank", "0", "--attempt", "-1"), {}, "attempt"),
        (("--node-rank", "0", "--nonsense"), {}, "unrecognized arguments"),
    ],
)
def test_refusals(agents, options, environ, words):
    run = agents("true")
    code, said = run.ended(run.start(*options, environ=environ))
    assert code == 2 and words in said and "Traceback" not in said
    assert not os.path.exists(run.paths.rendezvous)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "No such file"),
        ("", "cannot be used"),
        ("[]", "its version is None"),
        ('{"version": 99}', "version 99 of the format"),
        ('{"version": 1}', "not a plan"),
    ],
)
def test_a_run_directory_without_a_plan(agents, text, words):
    run = agents("true")
    os.unlink(run.paths.plan)
    if text is not None:
        with open(run.paths.plan, "w") as file:
            file.write(text)
    code, said = run.ended(run.head())
    assert code == 2 and words in said and "plan.json" in said and "Traceback" not in said


FAMILY = "setsid sleep 60 & echo $! started; sleep 60 & exec sleep 60"


def family(run: Agents) -> list[int]:
    """The agent, which is a child of what was started, and a process that its rank has put into another session."""
    until(lambda: "started" in run.log(0) if os.path.exists(run.paths.rank_log(0)) else False)
    until(run.pid_of_first_rank)
    with open(run.paths.events(0)) as file:
        return [json.loads(file.readline())["pid"], int(run.log(0).split()[0])]


def test_an_agent_that_is_killed_leaves_nothing_but_a_record(agents):
    """A scheduler without control groups would not find what its ranks have started."""
    run = agents(FAMILY, nodes=1, ranks=1)
    started = run.start("--node-rank", "0")
    agent, stray = family(run)
    assert agent != started.pid
    os.kill(agent, signal.SIGKILL)
    assert run.ended(started)[0] == 137
    assert processes.start_time(stray) is None and not marked(run.paths.run_id)
    assert run.state() == ("FAILED", "NODE_FAILURE")


def test_an_agent_whose_keeper_is_killed_ends_its_ranks(agents):
    run = agents(FAMILY, nodes=1, ranks=1)
    started = run.start("--node-rank", "0")
    agent, stray = family(run)
    started.kill()
    until(lambda: processes.start_time(agent) is None)
    assert processes.start_time(stray) is None and not marked(run.paths.run_id)
    assert run.state() == ("FAILED", "NODE_FAILURE")


def test_an_agent_that_is_killed_once_it_was_told_to_end_was_cancelled(agents):
    run = agents("trap : TERM; echo 0 started; while :; do sleep 1; done", nodes=1, ranks=1, grace=60.0)
    started = run.start("--node-rank", "0")
    agent = family(run)[0]
    started.terminate()
    until(lambda: "stopping" in open(run.paths.events(0)).read())
    os.kill(agent, signal.SIGKILL)
    assert run.ended(started)[0] == 137
    assert run.state() == ("CANCELLED", "CANCELLED_BY_USER")


def test_an_agent_that_the_others_gave_up_was_not_cancelled_when_it_is_ended_for_it(agents):
    """It was stopped for longer than they wait: srun ends the step then, which it hears of when it goes on."""
    run = agents(FAMILY, ranks=1, silence=1.0)
    head, member = run.head(), run.start("--node-rank", "1")
    family(run)
    with open(run.paths.events(1)) as file:
        stopped = json.loads(file.readline())["pid"]
    os.kill(stopped, signal.SIGSTOP)
    assert run.ended(head)[0] == 1
    member.terminate()
    os.kill(stopped, signal.SIGCONT)
    assert run.ended(member)[0] == 1
    assert run.state() == ("FAILED", "NODE_FAILURE")


def test_an_agent_that_is_killed_while_a_failure_ends_the_run_leaves_that_failure(agents):
    run = agents(
        "trap : TERM; up=$WORLDSIZE_RUN_DIR/outputs/up; echo 0 started; "
        "[ $RANK = 0 ] && touch $up; until [ -e $up ]; do sleep 0.1; done; "
        "[ $RANK = 1 ] && exit 3; while :; do sleep 1; done",
        nodes=1, ranks=2, grace=60.0,
    )  # fmt: skip
    started = run.start("--node-rank", "0")
    agent = family(run)[0]
    until(lambda: "stopping" in open(run.paths.events(0)).read())
    os.kill(agent, signal.SIGKILL)
    assert run.ended(started)[0] == 137
    assert run.state() == ("FAILED", "EXIT_CODE")


def test_who_started_an_agent_may_be_gone_before_it_begins(agents):
    """Found by chaos: a slurmstepd that was killed while its agent's interpreter started was missed by nobody."""
    run = agents(FAMILY, nodes=1, ranks=1)
    launcher = subprocess.Popen(["sh", "-c", "sleep 60; : $0", run.paths.run_id])
    started = run.start("--node-rank", "0", "--launcher", str(launcher.pid), "--starter", "1")
    assert launcher.wait(60) == -signal.SIGKILL
    assert run.ended(started)[0] == 1 and run.state() == ("FAILED", "NODE_FAILURE")


def test_who_started_an_agent_is_missed_where_a_launcher_waits_for_it(agents):
    """As slurmstepd, which was to tell srun: that would wait for ever, and is ended."""
    run = agents(FAMILY, nodes=1, ranks=1)
    launcher = subprocess.Popen(["sh", "-c", "sleep 60; : $0", run.paths.run_id])
    words = [SUPPORTED[0], run.bundle, run.paths.root, "--node-rank", "0", "--launcher", str(launcher.pid)]
    starter = subprocess.Popen(["sh", "-c", '"$@"; :', "sh", *words])
    agent, stray = family(run)
    starter.kill()
    assert launcher.wait(60) == -signal.SIGKILL
    until(lambda: processes.start_time(agent) is None)
    assert processes.start_time(stray) is None and not marked(run.paths.run_id)
    assert run.state() == ("FAILED", "NODE_FAILURE")
    starter.wait()


TELL = "cat >> ../told"


def told(run: Agents) -> list[tuple[str, str, int, bool | None]]:
    with open(os.path.join(run.paths.root, "told")) as file:
        messages = [json.loads(line) for line in file]
    return [(each["event"], each["state"], each["attempt"], each.get("may_restart")) for each in messages]


def test_each_attempt_tells_its_start_failure_and_end(agents):
    run = agents("exit $((RANK * (1 - WORLDSIZE_ATTEMPT)))", nodes=2, ranks=1, notify=TELL)
    for attempt in ("0", "1"):
        nodes = run.head("--attempt", attempt), run.start("--node-rank", "1", "--attempt", attempt)
        assert [run.ended(node)[0] for node in nodes] == [1 - int(attempt)] * 2
    first, second = told(run)[:-2], told(run)[-2:]
    assert first[-2:] == [("failure", "FAILED", 0, False), ("end", "FAILED", 0, False)]
    assert first[:-2] in ([], [("start", "RUNNING", 0, None)]), "the other node may have failed before"
    assert second == [("start", "RUNNING", 1, None), ("end", "SUCCEEDED", 1, False)]


def test_the_keeper_tells_of_the_end_of_an_agent_that_is_killed(agents):
    run = agents("echo up; exec sleep 60", nodes=1, ranks=1, notify=TELL)
    agent = run.head()
    until(lambda: os.path.exists(run.paths.events(0)) and run.pid_of_first_rank())
    with open(run.paths.events(0)) as file:
        os.kill(json.loads(file.readline())["pid"], signal.SIGKILL)
    run.ended(agent)
    assert told(run)[-2:] == [("failure", "FAILED", 0, True), ("end", "FAILED", 0, True)]


def test_an_end_that_a_scheduler_asked_for_may_be_followed_by_another_attempt(agents):
    run = agents("echo up; exec sleep 60", nodes=1, ranks=1, notify=TELL)
    agent = run.head()
    until(lambda: os.path.exists(run.paths.rank_log(0)) and "up" in run.log(0))
    agent.send_signal(signal.SIGTERM)
    run.ended(agent)
    assert told(run) == [("start", "RUNNING", 0, None), ("end", "CANCELLED", 0, True)]
