"""The cluster itself: it is what the other tests take it for, and nothing of it outlives its owner."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from slurm import database, machine, processes, registry
from slurm.cluster import Cluster, ClusterError, Flavour, sweep
from slurm.fixtures import remains, skip_without_cluster

PROGRAM = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cluster.py")
LOGIN_NAMES = ["login", *sorted({socket.gethostname(), socket.gethostname().partition(".")[0]})]
pytestmark = [pytest.mark.slurm, pytest.mark.exhaustive]


@pytest.fixture(autouse=True, scope="module")
def _can_be_had() -> None:
    skip_without_cluster()


def until(true: Callable[[], object], timeout: float = 30) -> bool:
    deadline = time.monotonic() + timeout
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def state(cluster: Cluster, job: str) -> str:
    return cluster.command("squeue", "--noheader", "--states=all", "--format=%T", "--jobs", job).strip()


def written_down(cluster: Cluster, job: str) -> None:
    """Until slurmctld has saved what it knows now: a crash costs it its last five seconds. It saves what changes."""
    word = "known-of-" + job
    cluster.command("scontrol", "update", "JobId=" + job, "Comment=" + word)
    assert until(lambda: word.encode() in saved(cluster))


def saved(cluster: Cluster) -> bytes:
    """What slurmctld has last written down; it removes the old file before the new one gets its name."""
    try:
        with open(cluster.local("state", "job_state"), "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def said(cluster: Cluster, job: str) -> list[str]:
    """The words of its output so far."""
    path = os.path.join(cluster.shared, job + ".out")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return file.read().split()


def submit(cluster: Cluster, *options: str, script: str) -> str:
    words = ["sbatch", "--parsable", "--output", cluster.shared + "/%j.out", *options, "--wrap", script]
    return cluster.command(*words, cwd=cluster.shared).strip()


def waiting(cluster: Cluster, *options: str) -> str:
    """A job that lasts until `go`. It has begun on its node: slurmctld calls it RUNNING before it has told the node."""
    job = submit(cluster, *options, script="echo up; until test -e go-$SLURM_JOB_ID; do sleep 0.05; done")
    assert until(lambda: said(cluster, job) == ["up"])
    return job


def go(cluster: Cluster, job: str) -> None:
    """A job of `waiting` ends."""
    open(os.path.join(cluster.shared, "go-" + job), "w").close()


SHOWN = sorted(machine.shown())


def test_what_a_test_left_in_tmp_is_gone_for_the_next(slurm: Cluster) -> None:
    slurm.command("srun", "-N4", "sh", "-c", "mkdir -p /tmp/a/b && touch /tmp/a/b/c /tmp/d && ln -s /etc /tmp/e")
    slurm.clear_tmp()
    assert slurm.command("srun", "-N4", "ls", "/tmp").split() == SHOWN * 4
    assert os.listdir("/etc")


def test_every_node_is_a_machine_of_its_own(slurm: Cluster) -> None:
    script = "cat /etc/hostname; hostname; hostname -I; ls /sys/class/net /tmp /dev/shm; ls /proc | grep -c '^[0-9]'"
    told = slurm.command("srun", "-N4", "-l", "sh", "-c", script)
    for index, node in enumerate(slurm.node_names):
        lines = [line[3:].strip() for line in told.splitlines() if line.startswith("%d: " % index)]
        assert lines[:2] == [node, node]
        assert lines[2] == slurm.network.node(index + 1)
        assert lines[3:-1] == ["/dev/shm:", "", "/sys/class/net:", "eth0", "lo", "", "/tmp:", *SHOWN]
        assert int(lines[-1]) < 15


def test_names_resolve_on_the_nodes_and_on_the_login_node(slurm: Cluster) -> None:
    asked = ["getent", "hosts", "node3", "ctl", "login"]
    expected = [slurm.network.node(3), "node3", slurm.network.controller, "ctl", slurm.network.login, *LOGIN_NAMES]
    assert slurm.command("srun", "-N1", *asked).split() == expected
    assert slurm.command(*slurm.login_argv(asked)).split() == expected
    assert slurm.command(*slurm.login_argv(["hostname"])) == "login\n"
    assert subprocess.call(["getent", "hosts", "node3"], stdout=subprocess.DEVNULL) != 0


def test_first_jobs_after_a_start_leave_idle_nodes_at_once() -> None:
    with Cluster.start(Flavour(accounting=False)) as cluster:
        for _ in range(5):
            cluster.command("srun", "-N4", "true")
            cluster.wait_idle(15)


def test_nodes_reach_each_other_and_nothing_else(slurm: Cluster) -> None:
    listen = "import socket; s = socket.create_server(('', 5000)); s.settimeout(60); print(s.accept()[1][0])"
    call = "import socket; socket.create_connection(('node1', 5000), 1)"
    outside = "import socket; socket.create_connection(('192.0.2.1', 80), 1)"
    with subprocess.Popen(
        slurm.on_node("node1", [sys.executable, "-c", listen]), stdout=subprocess.PIPE, text=True
    ) as server:
        assert until(lambda: subprocess.call(slurm.on_node("node2", [sys.executable, "-c", call]), stderr=-3) == 0)
        assert server.communicate()[0].strip() == slurm.network.node(2)
    assert subprocess.call(slurm.on_node("node2", [sys.executable, "-c", outside]), stderr=subprocess.DEVNULL) == 1


def test_a_job_spans_all_nodes_and_writes_to_the_shared_folder(slurm: Cluster) -> None:
    job = submit(slurm, "-N4", "--wait", script="srun hostname")
    with open(os.path.join(slurm.shared, job + ".out"), encoding="utf-8") as file:
        assert sorted(file.read().split()) == slurm.node_names
    ended = ["sacct", "--noheader", "--parsable2", "--allocations", "--format=State,NNodes,ExitCode", "--jobs", job]
    assert until(lambda: slurm.command(*ended).strip() == "COMPLETED|4|0:0", 20)


def test_an_ordinary_user_may_submit(slurm: Cluster) -> None:
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    assert slurm.command(*nobody, "srun", "-N2", "id", "-u", cwd="/").split() == ["65534"] * 2


def test_gpus_are_given_out(slurm: Cluster) -> None:
    ask = "echo $CUDA_VISIBLE_DEVICES"
    assert slurm.command("srun", "-N2", "--gpus-per-node=4", "sh", "-c", ask).split() == ["0,1,2,3"] * 2
    assert slurm.command("srun", "--gres=gpu:h100:2", "sh", "-c", ask).strip() == "0,1"
    with pytest.raises(ClusterError, match="Requested node configuration is not available"):
        slurm.command("srun", "--gpus-per-node=5", "true")


def test_python_of_the_tests_runs_on_the_nodes(slurm: Cluster) -> None:
    told = slurm.command("srun", "-N2", sys.executable, "-c", "import worldsize; print(worldsize.__name__)")
    assert told.split() == ["worldsize"] * 2


def test_processes_finds_what_a_job_has_started(slurm: Cluster) -> None:
    submit(slurm, "--nodelist=node2", script="exec sleep 61")
    assert until(lambda: any(process.argv == ("sleep", "61") for process in slurm.processes("node2")))
    assert slurm.processes("node3") == []
    slurm.cancel_everything()
    slurm.wait_idle()
    assert remains(slurm) == {}


def test_preemption_requeues(slurm: Cluster) -> None:
    script = "echo ${SLURM_RESTART_COUNT:-first}; exec sleep 60"
    low = submit(slurm, "-N4", "-plow", "--exclusive", "--open-mode=append", script=script)
    assert until(lambda: said(slurm, low) == ["first"])
    high = submit(slurm, "-N4", "-phigh", "--exclusive", script="exec sleep 0.5")
    assert until(lambda: state(slurm, high) == "COMPLETED")
    assert until(lambda: state(slurm, low) == "RUNNING")
    assert until(lambda: said(slurm, low)[-1:] == ["1"])


def test_nodes_without_power_or_network_are_noticed_and_come_back(slurm: Cluster) -> None:
    subprocess.check_call(slurm.on_node("node2", ["touch", "/tmp/written"]))
    jobs = [submit(slurm, "--nodelist=" + node, "--no-requeue", script="exec sleep 90") for node in ("node2", "node3")]
    assert until(lambda: slurm.processes("node2") and slurm.processes("node3"))
    slurm.power_off("node2")
    slurm.cut_network("node3")
    assert slurm.power("node2") is None
    assert slurm.processes("node2") == []
    assert until(lambda: {state(slurm, job) for job in jobs} == {"NODE_FAIL"}, 60)
    assert slurm.states() == {"node1": "idle", "node2": "down*", "node3": "down*", "node4": "idle"}
    assert slurm.processes("node3"), "without a network it runs on"
    slurm.power_on("node2")
    assert until(lambda: slurm.states()["node2"] == "idle", 30)
    assert slurm.command("srun", "--nodelist=node2", "ls", "/tmp").split() == SHOWN, "its first job, at once"
    slurm.restore_network("node3")
    assert until(lambda: slurm.states()["node3"] == "idle", 30)
    assert until(lambda: not slurm.processes("node3"), 30), "slurmd ends jobs that slurmctld has given up"


@pytest.mark.exhaustive
def test_slurmd_is_not_started_on_a_node_that_still_boots(slurm: Cluster) -> None:
    for _ in range(5):
        slurm.power_off("node2")
        slurm.power_on("node2", 0)
        slurm.until(lambda: slurm.power("node2") is not None, "node2 has no process 1")
        slurm.restart_slurmd("node2", 0)
        slurm.until(lambda: slurm.daemons("slurmd", "node2"), "node2 has no slurmd")
    slurm.restart_slurmd("node2")


def test_jobs_survive_slurmd(slurm: Cluster) -> None:
    job = waiting(slurm, "--nodelist=node4")
    assert state(slurm, job) == "RUNNING"
    slurm.kill_slurmd("node4")
    assert slurm.daemons("slurmd", "node4") == []
    slurm.restart_slurmd("node4")
    go(slurm, job)
    assert until(lambda: state(slurm, job) == "COMPLETED")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP])
def test_jobs_survive_the_controller(slurm: Cluster, number: int) -> None:
    job = waiting(slurm)
    assert state(slurm, job) == "RUNNING"
    if number == signal.SIGKILL:
        written_down(slurm, job)
    slurm.stop_controller(number)
    with pytest.raises((ClusterError, subprocess.TimeoutExpired)):
        slurm.command("squeue", timeout=1)
    slurm.start_controller()
    go(slurm, job)
    assert until(lambda: state(slurm, job) == "COMPLETED", 60)


def test_restore_undoes_everything_at_once(slurm: Cluster) -> None:
    submit(slurm, "--array=1-20", "-N1", "--exclusive", script="exec sleep 60")
    slurm.power_off("node1")
    slurm.cut_network("node2")
    slurm.kill_slurmd("node3")
    slurm.kill_slurmd("node4", signal.SIGSTOP)
    slurm.command("scontrol", "update", "NodeName=node4", "State=DRAIN", "Reason=test")
    slurm.command("scontrol", "update", "PartitionName=short", "State=DRAIN")
    slurm.stop_controller(signal.SIGKILL)
    slurm.restore()
    assert sorted(slurm.command("srun", "-N4", "-pshort", "hostname").split()) == slurm.node_names


def test_without_accounting_sacct_has_nothing_to_tell(slurm_without_accounting: Cluster) -> None:
    cluster = slurm_without_accounting
    assert cluster.command("srun", "-N2", "hostname").split() != []
    with pytest.raises(ClusterError, match="accounting storage is disabled"):
        cluster.command("sacct")


def test_affinity_binds_tasks_to_real_cpus() -> None:
    with Cluster.start(Flavour(nodes=1, accounting=False, affinity=True)) as cluster:
        ask = "import os; print(sorted(os.sched_getaffinity(0)))"
        bound = cluster.command("srun", "-n2", "--cpu-bind=cores", sys.executable, "-c", ask).splitlines()
        assert len(set(bound)) == min(2, os.cpu_count() or 1)


def test_accounts_are_enforced_where_asked_for() -> None:
    with Cluster.start(Flavour(nodes=1, enforce=True)) as cluster:
        assert cluster.command("srun", "--account=research", "--qos=urgent", "echo", "in") == "in\n"
        with pytest.raises(ClusterError, match="Invalid account"):
            cluster.command("sbatch", "--account=nobody", "--wrap", "true")


def test_two_clusters_side_by_side_and_one_from_outside(slurm_without_accounting: Cluster) -> None:
    first = slurm_without_accounting
    with Cluster.start(Flavour(nodes=2, accounting=False, min_job_age=2)) as second:
        assert second.network.prefix != first.network.prefix
        assert sorted(second.command("srun", "-N2", "hostname").split()) == ["node1", "node2"]
        second.wait_idle()
        assert Cluster(second.folder).states() == {"node1": "idle", "node2": "idle"}
        assert Cluster(first.folder).states() == dict.fromkeys(first.node_names, "idle")
        link = second.network.link
    assert traces(second.folder, link) == []
    assert first.idle()


def test_clusters_that_start_at_the_same_moment_do_not_meet(tmp_path_factory: pytest.TempPathFactory) -> None:
    script = (
        "import sys; sys.path.insert(0, %r)\n"
        "from slurm.cluster import Cluster, Flavour\n"
        "with Cluster.start(Flavour(nodes=1, accounting=False)) as cluster:\n"
        "    print(cluster.network.link, cluster.command('srun', 'hostname'), flush=True); sys.stdin.read()\n"
    ) % os.path.dirname(os.path.dirname(PROGRAM))
    command = [sys.executable, "-c", script]
    running = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    told = [process.stdout.readline().split() for process in running if process.stdout]
    for process in running:
        process.communicate()
    assert [process.returncode for process in running] == [0, 0, 0]
    assert [name for _, name in told] == ["node1"] * 3
    assert len({link for link, _ in told}) == 3
    assert until(lambda: not [link for link, _ in told if os.path.exists("/sys/class/net/" + link)])


def test_each_clusters_database_keeps_its_temporary_tables_to_itself(slurm: Cluster) -> None:
    asked = subprocess.check_output(database.client(slurm.folder, "select @@tmpdir"), text=True)
    assert asked.splitlines()[1].startswith(slurm.folder + "/")


# Nothing outlives the owner


def traces(folder: str, link: str) -> list[str]:
    """What this machine still has of a cluster."""
    found = [" ".join(process.argv) for process in processes.living() if folder in " ".join(process.argv)]
    found += [folder] if os.path.exists(folder) else []
    found += [link] if os.path.exists("/sys/class/net/" + link) else []
    found += [claim.path for claim in registry.known() if claim.folder == folder]
    with open("/proc/mounts", encoding="utf-8") as mounts:
        found += [line for line in mounts if folder in line]
    return found


@pytest.fixture
def owned() -> Iterator[tuple[subprocess.Popen[str], Cluster, set[str]]]:
    """A process that owns a cluster, and the PID namespaces of that cluster. An open descriptor of each keeps its
    number from being given to another cluster meanwhile."""
    folder = os.path.dirname(os.path.dirname(PROGRAM))
    script = (
        "import sys, time; sys.path.insert(0, %r)\n"
        "from slurm.cluster import Cluster, Flavour\n"
        "print(Cluster.start(Flavour(nodes=2, accounting=%r)).folder, flush=True); time.sleep(600)"
    ) % (folder, not machine.missing())
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        cluster = Cluster(owner.stdout.readline().strip())
        submit(cluster, "-N2", script="exec srun sleep 60")
        assert until(lambda: all(cluster.processes(node) for node in cluster.node_names))
        firsts = [first for first in (cluster.guard(), *map(cluster.power, cluster.node_names)) if first is not None]
        held = [os.open("/proc/%d/ns/pid" % first.pid, os.O_RDONLY) for first in firsts]
        try:
            yield owner, cluster, {first.space for first in firsts}
        finally:
            for each in held:
                os.close(each)
            owner.kill()
            sweep()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_when_the_owner_dies(
    owned: tuple[subprocess.Popen[str], Cluster, set[str]], number: int
) -> None:
    owner, cluster, spaces = owned
    owner.send_signal(number)
    assert until(lambda: not traces(cluster.folder, cluster.network.link)), traces(cluster.folder, cluster.network.link)
    assert until(lambda: not [process for process in processes.living() if process.space in spaces])


def test_nothing_but_files_is_left_when_its_guard_is_killed_and_sweep_removes_those(
    owned: tuple[subprocess.Popen[str], Cluster, set[str]],
) -> None:
    _, cluster, spaces = owned
    guard = cluster.guard()
    assert guard is not None
    os.kill(guard.pid, signal.SIGKILL)
    assert until(lambda: not [process for process in processes.living() if process.space in spaces])
    assert until(lambda: not os.path.exists("/sys/class/net/" + cluster.network.link))

    def swept() -> bool:
        sweep()
        return not traces(cluster.folder, cluster.network.link)

    assert until(swept), "other tests look at claims, too, or sweep them first"


def claims_of_ours() -> set[str]:
    """Other processes start and stop clusters at the same time."""
    return {found.path for found in registry.known() if found.owner is not None and found.owner[0] == os.getpid()}


def test_a_start_that_fails_leaves_nothing(tmp_path_factory: pytest.TempPathFactory) -> None:
    before = claims_of_ours()
    with pytest.raises(ClusterError, match="exit code 1"):
        Cluster.start(Flavour(nodes=1, accounting=False, min_job_age=-1))
    assert claims_of_ours() == before


def test_the_program_starts_runs_lists_and_stops(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = str(tmp_path_factory.mktemp("c", numbered=True) / "own")
    ask = [sys.executable, PROGRAM]
    subprocess.check_call([*ask, "start", "--dir", folder, "--no-accounting", "--nodes", "2"])
    cluster = Cluster(folder)
    try:
        told = subprocess.check_output([*ask, "run", folder, "--", "srun", "-N2", "hostname"], text=True)
        assert sorted(told.split()) == ["node1", "node2"]
        assert "alive  %s  owner none" % folder in subprocess.check_output([*ask, "list"], text=True)
        assert folder not in subprocess.check_output([*ask, "sweep"], text=True), "others may have left some"
    finally:
        subprocess.check_call([*ask, "stop", folder])
    assert traces(folder, cluster.network.link) == []
    refused = subprocess.run([*ask, "stop", folder], capture_output=True, text=True)
    assert (refused.returncode, refused.stderr) == (1, "cluster.py: there is no cluster in %s\n" % folder)


def test_a_folder_in_use_is_refused_and_left_alone(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("d")
    (folder / "mine").write_text("kept")
    with pytest.raises(ClusterError, match="is not empty"):
        Cluster.start(Flavour(accounting=False), str(folder))
    assert (folder / "mine").read_text() == "kept"
