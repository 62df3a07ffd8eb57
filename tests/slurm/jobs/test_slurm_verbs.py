"""nodes, exec, shell, and what status says of waiting and usage, on a real cluster.

What is the same on every compute stands in tests/conformance/test_commands_on_nodes.py.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from driver import all_up, heard, wait_for
from slurm.by_hand import fill
from slurm.cluster import Cluster
from slurm.login import UP, Login, login_of
from terminal import Terminal

EVERYTHING = {"exclusive": True, "gpus_per_node": 4, "mem": "0"}


def steps(login: Login, run: str) -> set[str]:
    """The job's steps that run."""
    words = ["squeue", "--noheader", "--steps", "--format=%i", "--jobs", login.native(run)]
    return set(login.cluster.command(*words).split())


def jobs(login: Login, name: str = "worldsize-exec") -> list[str]:
    return login.cluster.command("squeue", "--noheader", "--format=%i", "--name", name).split()


def sleeping(login: Login, node: str, seconds: str) -> bool:
    return any(process.argv == ("sleep", seconds) for process in login.cluster.processes(node))


# nodes


def test_nodes_alike_are_one_row_and_a_drained_one_says_why(login: Login) -> None:
    every = "main*,cpu,high,low,short"
    rows = [line.split("  ") for line in login.ok("nodes").lines]
    assert [cell for cell in rows[1] if cell][:2] == ["node[1-4]", "idle"] and rows[1][-1].strip() == every
    login.cluster.command("scontrol", "update", "NodeName=node3", "State=DRAIN", "Reason=fan broken, ask Jo")
    run = login.running(world="2x1", slurm={"gpus_per_node": 3})
    folded = login("nodes")
    first, second, third = folded.lines[1:]
    assert first.split()[:2] == ["node[1-2]", "mixed"] and "1 free of 4 × h100" in first
    assert second.split()[:2] == ["node3", "drained"] and "0 free of 4 × h100" in second
    assert third.split()[:2] == ["node4", "idle"]
    assert "1 node starts no runs: `worldsize nodes --all` gives the reason" in folded.err
    lines = login.ok("nodes", "--all").lines
    assert len(lines) == 5 and lines[3].endswith("  fan broken, ask Jo")
    found = {row["name"]: row for row in login.json("nodes")}
    assert (found["node1"]["gpus"], found["node1"]["gpus_free"], found["node1"]["gpu_type"]) == (4, 1, "h100")
    assert (found["node3"]["usable"], found["node3"]["reason"]) == (False, "fan broken, ask Jo")
    assert found["node4"]["groups"] == ["main", "cpu", "high", "low", "short"]
    assert found["node4"]["default_groups"] == ["main"]
    login.ok("cancel", run)


# exec


def test_it_waits_for_nothing_that_the_run_holds_and_takes_nothing_of_it(login: Login) -> None:
    run = login.running(UP + "; until test -e outputs/go; do sleep 0.05; done", "2x2", slurm=EVERYTHING)
    before = steps(login, run)
    started = time.monotonic()
    lines = login.ok("exec", "--fold", "off", "--", "sh", "-c", "echo $SLURM_JOB_ID $CUDA_VISIBLE_DEVICES").lines
    assert sorted(lines) == ["%d: %s 0,1,2,3" % (node, login.native(run)) for node in (0, 1)]
    assert time.monotonic() - started < 30
    assert login.ok("exec", "--node", "node2", "--", "hostname").lines == ["1: node2"]
    wait_for(lambda: steps(login, run) == before)
    open(login.path(run, "outputs", "go"), "w").close()
    assert login.ended(run)["state"] == "SUCCEEDED"


def test_the_end_of_the_run_is_its_end(login: Login) -> None:
    run = login.running()
    process = login.start("exec", "--", "sh", "-c", "echo up; sleep 4731")
    wait_for(lambda: sleeping(login, "node1", "4731") and sleeping(login, "node2", "4731"))
    all_up(process, 2)
    login.ok("cancel", run, "--now")
    out, err = process.communicate(timeout=30)
    assert process.returncode > 0 and out == b"", err
    assert login.ended(run)["state"] == "CANCELLED"


def test_elements_of_an_array(login: Login) -> None:
    array = login.submit(login.job(UP + "; sleep 120", "1x1"), "--count", "2")
    elements = ["%s_%d" % (array, number) for number in (0, 1)]
    for element in elements:
        up = login.path(array, element, "outputs", "up-0-0")
        wait_for(lambda up=up: os.path.exists(up), 30)  # type: ignore[misc]
    for element in elements:
        (line,) = login.ok("exec", element, "--", "sh", "-c", "echo $WORLDSIZE_RUN_DIR").lines
        assert line.endswith(element)
    login.ok("cancel", array, "--now")


def test_ranks_that_a_batch_script_starts(login: Login) -> None:
    script = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=2\nexport IN_SCRIPT=1\nsrun sh -c '%s; exec sleep 120'\n"
    login.write("job.slurm", script % UP.replace("RANK", "SLURM_PROCID"))
    run = login.submit("job.slurm")
    login.wait_up(run, "2x2")
    lines = login.ok("exec", "--", "sh", "-c", "echo $IN_SCRIPT $SLURM_PROCID $(hostname)").lines
    assert sorted(lines) == ["0: 1 node1", "1: 1 node2"]
    login.ok("cancel", run, "--now")


def test_inside_an_allocation(login: Login) -> None:
    """Of a run that has two of its three nodes, and of the allocation itself."""
    script = """
        id=$(worldsize submit -w 2x1 -- sh -c 'touch outputs/up-$RANK-0; sleep 120')
        until [ -e "$WORLDSIZE_HOME/runs/$id/outputs/up-1-0" ]; do sleep 0.05; done
        worldsize exec -- hostname | sort; worldsize exec -w 3 -- hostname | sort
        worldsize exec -w 4 -- hostname; echo $?
        worldsize cancel $id --now; worldsize wait $id
    """
    tools = os.path.join(login.root, "bin")
    os.mkdir(tools)
    with open(os.path.join(tools, "worldsize"), "w") as file:
        file.write('#!/bin/sh\nexec "%s" -m worldsize "$@"\n' % sys.executable)
    os.chmod(file.name, 0o755)
    done = subprocess.run(
        ["salloc", "-N3", "--ntasks-per-node=2", "bash", "-c", script],
        cwd=login.project,
        env={**login.environ, "PATH": "%s:%s" % (tools, login.environ["PATH"])},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.splitlines() == ["0: node1", "1: node2", "0: node1", "1: node2", "2: node3", "2"], done.stderr
    assert "4 nodes are asked for, and this allocation" in done.stderr
    assert jobs(login) == []


@pytest.mark.exhaustive
def test_whoever_waits_for_nodes_of_their_own_can_give_up(login: Login) -> None:
    fill(login)
    late = login("exec", "-w", "2", "--timeout", "3", "--", "true")
    assert late.code == 124 and "queued and waiting" in late.err and "it has not begun after 3 s" in late.err
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)):
        process = login.start("exec", "-w", "2", "--", "true")
        heard(process.stderr, "queued and waiting")
        assert jobs(login)
        process.send_signal(number)
        process.communicate(timeout=20)
        assert process.returncode == code
        wait_for(lambda: not jobs(login))


@pytest.mark.exhaustive
def test_slurm_says_no_or_nothing(login: Login) -> None:
    login.write("worldsize.toml", 'default_compute = "no"\n[compute.no]\ntype = "slurm"\npartition = "nowhere"\n')
    refused = login("exec", "-w", "1", "--", "true")
    assert refused.code == 1 and "invalid partition" in refused.err and "slurm.partition" in refused.err
    run = login.running(slurm={"partition": "main"})
    login.cluster.stop_controller()
    for words in (["nodes"], ["exec", "--", "true"]):
        away = login(*words)
        assert away.code == 1 and "Slurm cannot be reached now" in away.err and not away.out, away
    login.cluster.start_controller()
    assert login("exec", "--", "true", PATH=os.path.dirname(os.__file__)).code == 2
    login.ok("cancel", run)


@pytest.mark.exhaustive
def test_a_node_that_dies_does_not_keep_us(login: Login) -> None:
    login.running(slurm={"requeue": False})
    process = login.start("exec", "--", "sh", "-c", "echo up; sleep 4732")
    wait_for(lambda: sleeping(login, "node1", "4732") and sleeping(login, "node2", "4732"))
    login.cluster.power_off("node2")
    _, err = process.communicate(timeout=60)
    assert process.returncode > 0 and "lost before it ended: node 1 (node2)" in err.decode(), err


# shell


def test_a_shell_on_a_node(login: Login) -> None:
    login.write("train.py", "")
    run = login.running("export LATE=1; " + UP + "; exec sleep 120", code=".", slurm=EVERYTHING)
    with Terminal(login, "shell", run, "--node", "node2") as screen:
        screen.until("node 1 (node2) of " + run)
        screen.type("echo at:$(hostname):$(pwd):$LATE:[$RANK]:$(ls train.py)\n")
        screen.until("at:node2:%s:1:[]:train.py" % os.path.realpath(login.path(run, "code")))
        screen.type("sleep 4733\n")
        wait_for(lambda: sleeping(login, "node2", "4733"))
        screen.type("\x03")
        screen.until("^C")
        wait_for(lambda: not sleeping(login, "node2", "4733"))
        screen.type("exit 7\n")
        assert screen.end() == 7
        assert "srun" not in screen.shown
    assert login.status(run)["state"] == "RUNNING"
    with Terminal(login, "shell") as screen:
        screen.type("sleep 4733\n")
        wait_for(lambda: sleeping(login, "node1", "4733"))
    wait_for(lambda: not sleeping(login, "node1", "4733"))
    login.ok("cancel", run, "--now")


# status


def test_why_a_run_waits_and_what_would_start_it_sooner(login: Login) -> None:
    fill(login, "--partition=low", "--time=3:00:00")
    run = login.begin("true", "2x1", slurm={"partition": "low", "time": "1:00:00"})
    wait_for(lambda: login.status(run)["waiting"]["expected"], 30)
    status = login.status(run)
    waiting = status["waiting"]
    assert status["state"] == "QUEUED" and status["usage"] is None
    assert waiting["reason"] == "Resources" and not waiting["stuck"] and waiting["expected"] > time.time() + 3600
    options = [change["options"] for change in waiting["sooner"]]
    assert {"slurm.partition": "main"} in options
    text = login.ok("status", run).out
    assert "waits in partition low" in text and "expects it to start in 2 h" in text
    assert "it would start sooner with\n" in text and "  slurm.partition main: at once" in text
    assert jobs(login, run) == [login.native(run)], "trials submit nothing"
    login.ok("cancel", run)


def test_a_run_that_will_never_start_says_so(login: Login) -> None:
    run = login.begin("true", "2x1", slurm={"sbatch_options": {"begin": "now+1hour"}})
    login.cluster.command("scontrol", "uhold", login.native(run))
    wait_for(lambda: login.status(run)["waiting"]["stuck"])
    waiting = login.status(run)["waiting"]
    assert waiting["sooner"] == [] and "scontrol release %s" % login.native(run) in waiting["words"]
    assert "will not start by itself" in login.ok("status", run).out
    login.ok("cancel", run)


BUSY = "python3 -c 'import time; t = time.time()\nwhile time.time() - t < %d: pass'"


def test_what_a_run_used_is_said_at_its_end(login: Login) -> None:
    """In its last line only where accounting knows within a part of its time, at most a second, which not every time
    has to be so."""
    ends: list[str] = []
    while not ends or (" GPU-minutes" not in ends[-1] and len(ends) < 10):
        result = login.ok("run", login.job(BUSY % min(3 + 2 * len(ends), 6), "2x1", slurm={"gpus_per_node": 4}))
        ends += [line for line in result.err.splitlines() if " SUCCEEDED after " in line]
    assert " GPU-minutes" in ends[-1], ends
    run = login.latest()
    wait_for(lambda: (login.status(run)["usage"] or {}).get("cpu_efficiency"), 30)
    usage = login.status(run)["usage"]
    assert (usage["nodes"], usage["gpus"]) == (2, 8) and 0 < usage["cpu_efficiency"] <= 1.1
    assert usage["gpu_hours"] == pytest.approx(8 * usage["elapsed"] / 3600)
    assert "\nused " in login.ok("status", run).out and "% busy" in login.ok("status", run).out


@pytest.mark.exhaustive
def test_what_never_began_used_nothing_and_nobody_is_asked(login: Login) -> None:
    array = login.begin("true", "1x1", count=3, slurm={"sbatch_options": {"begin": "now+1hour"}})
    login.ok("cancel", array)
    wait_for(lambda: login.status(array)["states"] == {"CANCELLED": 3}, 30)
    counted = os.path.join(login.project, "counted")
    login.write("asks/sacct", '#!/bin/sh\necho asked >>%s\nexec %s "$@"\n' % (counted, shutil.which("sacct")))
    os.chmod(os.path.join(login.project, "asks", "sacct"), 0o755)
    login.environ["PATH"] = os.path.join(login.project, "asks") + os.pathsep + login.environ["PATH"]
    status = login.status(array)
    assert status["usage"] is None and not os.path.exists(counted)


def test_without_accounting_the_queue_tells_what_it_knows(slurm_without_accounting: Cluster) -> None:
    with login_of(slurm_without_accounting) as login:
        run = login.begin("sleep 2", "1x1", slurm={"gpus_per_node": 2})
        login.ended(run)
        wait_for(lambda: login.status(run)["usage"], 30)
        usage = login.status(run)["usage"]
        assert usage["gpus"] == 2 and usage["cpu_efficiency"] is None
        assert "used 0." in login.ok("status", run).out
