"""mpirun's line and environment, the files by which what it starts becomes a rank, its words on a failure; srun's."""

from __future__ import annotations

import os
import subprocess

import pytest

from worldsize.agent.launchers.base import find_launcher
from worldsize.agent.launchers.rank_file import rank_lines
from worldsize.agent.launchers.rank_process import EndedProcess, NodeEnd, NodeLaunch, Process
from worldsize.plan.node_names import node_names
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.rank_variables import Host, RendezvousResult
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.mpi.agent import slurm_srun
from worldsize.wings.mpi.agent.mpirun import (
    LAUNCHER,
    first_cause,
    hosts_lines,
    mpirun_environment,
    open_mpi_generation,
)


def plan_of(nodes: int, ranks: int, **fields) -> Plan:
    values = {"environment": {}, "framework": "mpi", "launcher": "mpirun", **fields}
    return Plan(
        "run-7", "t", "lab", 1_795_000_000.5, 0, node_major_layout(nodes, ranks), ("python", "a b.py"), **values
    )


def world_of(*names: str) -> RendezvousResult:
    return RendezvousResult("10.1.2.3", 29871, tuple(Host(name, 8) for name in names))


@pytest.mark.parametrize(
    ("hosts", "names"),
    [
        (["a", "b"], ["a", "b"]),
        (["a.x.org", "b.x.org"], ["a", "b"]),
        (["a.x.org", "a.y.org"], ["a.x.org", "a.y.org"]),
        (["10.0.0.5", "10.0.0.6"], ["10.0.0.5", "10.0.0.6"]),
        (["vm", "vm", "vm"], ["vm", "127.0.0.2", "127.0.0.3"]),
        (["vm.x.org", "vm.x.org"], ["vm", "127.0.0.2"]),
        (["vm"] * 300, ["vm", *("127.0.%d.%d" % divmod(node + 1, 256) for node in range(1, 300))]),
    ],
)
def test_every_node_has_a_name_of_its_own(hosts, names):
    assert list(node_names(hosts)) == names


def put(directory, *names: str) -> str:
    for name in names:
        (directory / name).touch(mode=0o755)
    return str(directory / names[0])


@pytest.mark.parametrize(
    ("beside", "found"),
    [
        (("orterun", "orted"), 4),
        (("mpirun", "orted"), 4),
        (("mpirun", "prterun", "prted"), 5),
        (("mpirun.openmpi", "prterun", "prted"), 5),
        (("mpirun.mpich", "prterun"), None),
        (("mpirun", "mpiexec.hydra"), None),
        (("mpiexec.hydra", "orted"), None),
    ],
)
def test_whose_mpirun_it_is(tmp_path, beside, found):
    os.symlink(put(tmp_path, *beside), tmp_path / "link")
    assert open_mpi_generation(str(tmp_path / "link")) == found


def test_mpirun_is_looked_for_where_ranks_would_find_it(tmp_path):
    put(tmp_path, "mpirun", "orted")
    here, elsewhere = {"PATH": str(tmp_path)}, {"PATH": "/nowhere"}
    is_available = LAUNCHER.is_available
    assert is_available(plan_of(1, 1), here) and not is_available(plan_of(1, 1), elsewhere)
    assert is_available(plan_of(1, 1, path=(str(tmp_path),)), elsewhere)
    assert not is_available(plan_of(1, 1, environment=elsewhere), here)


def test_ranks_are_placed_as_the_plan_has_them():
    plan = plan_of(2, 3)
    launch = NodeLaunch(plan, world_of("a", "b"), plan.nodes[0], RunPaths("/runs/r 1"), {})
    argv = LAUNCHER.argv(launch, {"PATH": "/"})
    assert argv[:5] == ("mpirun", "-np", "6", "--hostfile", "/runs/r 1/attempt-0/launch/hosts")
    assert argv[-3:] == ("attempt-0/launch", "python", "a b.py")  # below the run's directory, as each node calls it


@pytest.mark.parametrize(
    ("hosts", "lines"),
    [
        (["a", "b", "c"], ["a slots=2", "b slots=2", "c slots=2"]),
        (["vm", "vm", "vm"], ["vm slots=6"]),
        (["a", "a", "b"], ["a slots=4", "b slots=2"]),
    ],
)
def test_mpirun_sees_each_host_once(hosts, lines):
    assert hosts_lines(plan_of(3, 2), hosts).splitlines() == lines


def test_nodes_of_one_host_must_be_neighbours_for_mpirun():
    with pytest.raises(OSError, match="not neighbours"):
        hosts_lines(plan_of(3, 1), ["a", "b", "a"])


def test_more_ranks_than_cores_give_way_to_each_other():
    plan, paths = plan_of(2, 5), RunPaths("/runs/r")
    node, given = (
        plan.nodes[0],
        [RendezvousResult("x", 1, (Host(one, 8), Host(two, 8))) for one, two in (("a", "b"), ("a", "a"))],
    )
    found = [
        find_launcher(plan.launcher).processes(NodeLaunch(plan, world, node, paths, ENVIRON))[0].environment
        for world in given
    ]
    assert ["OMPI_MCA_mpi_yield_when_idle" in environment for environment in found] == [False, True]


ENVIRON = {
    "PATH": "/bin", "HOME": "/root", "SLURM_JOB_ID": "77", "SLURM_TASKS_PER_NODE": "2", "PMIX_RANK": "1", "A": "1",
}  # fmt: skip


def started(plan: Plan, node: int, cpus=(), run="/runs/r") -> tuple[list[Process], dict[str, str]]:
    paths, world = RunPaths(run), world_of("a", "b")
    ranks = list(NodeLaunch(plan, world, plan.nodes[node], paths, ENVIRON, cpus).ranks())
    return ranks, mpirun_environment(plan, paths, ranks[0].environment)


def test_mpirun_sees_no_other_launcher_and_no_scheduler():
    plan = plan_of(2, 2, kept=("SLURM_JOB_ID",), environment={"OMPI_MCA_mpi_yield_when_idle": "1", "B": "2"})
    ranks, launcher = started(plan, 1)
    assert ranks[0].environment["SLURM_JOB_ID"] == "77"
    foreign = ("SLURM", "PMI", "OMPI_COMM", "CCP_", "AZ", "TORCH", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "JAX_")
    assert [name for name in launcher if name.startswith(foreign)] == []
    assert (launcher["A"], launcher["B"], launcher["OMPI_MCA_mpi_yield_when_idle"]) == ("1", "2", "1")
    assert launcher["WORLDSIZE_RUN_ID"] == "run-7" and "WORLDSIZE_RANK" not in launcher
    assert launcher["PATH"] == "/runs/r/attempt-0/launch:" + ranks[0].environment["PATH"]


def test_what_an_environment_sets_is_in_no_file_of_a_rank():
    """Found by review: under a name that mpirun is not to see otherwise, it was, for good, with secrets."""
    own = {"AZUREML_CONN": "db-hunter2", "CCP_PASSWORD": "hunter2", "SLURM_OWN": "hunter2"}
    ranks, launcher = started(plan_of(2, 2, activated=own), 1)
    assert {name: launcher[name] for name in own} == own
    assert "hunter2" not in rank_lines(ranks[0], "mpirun", launcher)


def test_what_mpirun_started_becomes_the_rank(tmp_path):
    awkward = {"Q": 'it\'s "so"', "LINES": "1\n2", "EMPTY": "", "DOLLAR": "$HOME `id`", "SPACE": " a  b ", "file": "f"}
    plan = plan_of(2, 2, environment=awkward, kept=("SLURM_JOB_ID",))
    ranks, launcher = started(plan, 1, run=str(tmp_path))
    log = tmp_path / "the log"
    rank = ranks[1]._replace(log=str(log))
    own = {"OMPI_COMM_WORLD_RANK": "3", "PMIX_RANK": "3", "PATH": "/mpi/bin:/bin"}
    argv = LAUNCHER.argv(NodeLaunch(plan, world_of("a", "b"), plan.nodes[0], RunPaths("/head's/r"), {}), {"PATH": "/"})
    words = [*argv[argv.index("/bin/sh") : -2], "env", "-0"]
    (tmp_path / "attempt-0/launch").mkdir(parents=True)
    (tmp_path / "attempt-0/launch/rank-3").write_text(rank_lines(rank, "mpirun", launcher))
    subprocess.run(words, env={**launcher, **own}, check=True, timeout=30)
    found = dict(line.split("=", 1) for line in log.read_text().split("\0") if line)
    found.pop("PWD", None)
    ours = rank.environment
    assert {name: found[name] for name in ours} == ours
    assert set(found) - set(ours) <= {*own, "OMPI_MCA_mpi_abort_print_stack", "OMPI_ALLOW_RUN_AS_ROOT",
                                      "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                                      "PRTE_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"}  # fmt: skip


def test_a_rank_is_bound_to_its_share(tmp_path):
    cpu = min(os.sched_getaffinity(0))
    ranks, launcher = started(plan_of(1, 2), 0, ((cpu,), (cpu,)))
    lines = rank_lines(ranks[0]._replace(log=str(tmp_path / "log")), "mpirun", launcher)
    said = subprocess.run(["sh", "-c", lines + "exec taskset -cp $$"], env=launcher, check=True, capture_output=True)
    assert said.stdout == b""
    assert (tmp_path / "log").read_text().endswith("current affinity list: %d\n" % cpu)


EXITED_4 = """--------------------------------------------------------------------------
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
--------------------------------------------------------------------------
--------------------------------------------------------------------------
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[3309,1],2]
  Exit code:    5
--------------------------------------------------------------------------
"""
SIGNALLED_4 = "mpirun noticed that process rank 12 with PID 19631 on node 127.0.0.2 exited on signal 9 (Killed).\n"
ABORTED_4 = """MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD
with errorcode 7.

NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.
"""
UNFINISHED_4 = """mpirun has exited due to process rank 1 with PID 0 on
node node2 exiting improperly. There are three reasons this could occur:
"""
EXITED_5 = """prterun detected that one or more processes exited with non-zero status,
thus causing the job to be terminated. The first process to do so was:

   Process name: [prterun-vm-28102@1,2]
   Exit code:    3
"""
SIGNALLED_5 = """prterun noticed that process rank 2 with PID 28250 on node vm exited on
signal 11 (Segmentation fault).
"""
ABORTED_5 = """MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD
  Proc: [[50011,1],2]
  Errorcode: 1

prterun has exited due to process rank 2 with PID 6260 on node vm calling
"abort". This may have caused other processes in the application to be
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (EXITED_4, (2, 5)),
        (SIGNALLED_4, (12, 137)),
        (ABORTED_4, (2, 7)),
        (UNFINISHED_4, (1, 9)),
        (EXITED_5, (2, 3)),
        (SIGNALLED_5, (2, 139)),
        (ABORTED_5, (2, 1)),
        (ABORTED_4 + EXITED_4, (2, 7)),
        ("mpirun: something else\n", None),
    ],
)
def test_the_first_failure_in_mpiruns_words(tmp_path, text, cause):
    (tmp_path / "log").write_text(text)
    assert first_cause(str(tmp_path / "log"), 9) == cause


def test_no_log_names_nobody(tmp_path):
    assert first_cause(str(tmp_path / "log"), 1) is None


def failures(tmp_path, text: str, code: int, node: int = 0, **errors: str):
    paths = RunPaths(str(tmp_path))
    os.makedirs(paths.errors_dir)
    for number, (rank, message) in enumerate(errors.items()):
        report = '{"type": "E", "message": "%s", "frames": [], "time": %d, "pid": 1}' % (message, 50 + number)
        with open(paths.rank_error(int(rank[1:])), "w") as file:
            file.write(report)
    (tmp_path / "log").write_text(text)
    ended = EndedProcess(Process((0, 1), ("mpirun",), {}, str(tmp_path / "log"), ()), code, 99.0)
    return find_launcher("mpirun").failures(NodeEnd(plan_of(2, 2), paths, node, ["a", "b"], ended, False))


def test_a_launchers_last_words_are_told_without_secrets(tmp_path):
    """Found by review."""
    (found,) = failures(tmp_path, "cannot fetch https://me:hunter2@host/x\n", 5)
    assert "cannot fetch" in found.message and "hunter2" not in found.message


def test_the_rank_that_mpirun_names_failed_first(tmp_path):
    found = failures(tmp_path, EXITED_4, 5)
    assert [(each.rank, each.node_rank, each.code) for each in found] == [(2, 1, 5)]
    assert "rank 2 on node 1 (b) exited with code 5" in found[0].message


def test_whoever_left_an_exception_is_heard_beside_it(tmp_path):
    found = failures(tmp_path, EXITED_4, 5, r3="Connection closed by peer", r2="bad batch")
    assert {(each.rank, each.code, each.time) for each in found} == {(2, 5, 51.0), (3, 1, 50.0)}


def test_a_rank_without_an_exception_counts_before_those_with_one(tmp_path):
    found = failures(tmp_path, EXITED_4, 5, r0="timed out")
    assert [(each.rank, each.time) for each in found] == [(2, 50.0), (0, 50.0)]


def test_mpirun_itself_may_fail(tmp_path):
    (found,) = failures(tmp_path, "no slots\nThere are not enough slots.\n-----\n", 1)
    assert (found.rank, found.code) == (None, 1)
    assert found.message == "mpirun on node 0 (a) ended with code 1: There are not enough slots."


def test_a_rank_that_aborts_is_named_by_its_stack_where_mpirun_lost_its_words(tmp_path):
    paths = RunPaths(str(tmp_path))
    os.makedirs(paths.logs_dir)
    for rank, stack in enumerate(("opal_x", "opal_x", "ompi_mpi_abort", "opal_x")):
        with open(paths.rank_log(rank), "w") as file:
            file.write("step 1\n[vm:9] [1] func:/usr/lib/libmpi.so(%s+0x15f) [0x7fa051321b3f]\n" % stack)
    (found,) = failures(tmp_path, "[vm:9] ORTE_ERROR_LOG: Data unpack would read past end of buffer\n", 7)
    assert (found.rank, found.node_rank, found.code) == (2, 1, 7)


def test_a_daemon_gives_way_to_others_unless_it_could_not_start(tmp_path):
    from worldsize.state.first_failure import is_peer_loss

    (found,) = failures(tmp_path, "sh: orted: not found\n", 127, node=1)
    assert not is_peer_loss(found) and found.message.endswith("node 1 (b): sh: orted: not found")


def test_a_daemon_that_ends_with_mpirun_is_no_cause(tmp_path):
    from worldsize.state.first_failure import is_peer_loss

    (found,) = failures(tmp_path, "", 1, node=1)
    assert is_peer_loss(found) and found.node_rank == 1


# launcher: srun

EXITED_SRUN = """srun: cluster configuration lacks support for cpu binding
srun: Job step aborted: Waiting up to 7 seconds for job step to finish.
slurmstepd-node1: error: *** STEP 12.1 ON node1 CANCELLED AT 2026-11-21T18:27:22 ***
srun: error: node2: task 2: Exited with exit code 4
srun: launch/slurm: _step_signal: Terminating StepId=12.1
srun: error: node2: task 3: Killed
srun: error: node1: tasks 0-1: Killed
"""
KILLED_SRUN = """srun: error: node2: task 3: Killed
srun: launch/slurm: _step_signal: Terminating StepId=16.1
srun: error: node1: tasks 0-1: Terminated
srun: error: node2: task 2: Exited with exit code 1
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (EXITED_SRUN, (2, 4)),
        (KILLED_SRUN, (3, 137)),
        ("srun: error: node7: task 5: Segmentation fault (core dumped)\n", (5, 139)),
        ("srun: error: Unable to create step for job 3: Requested nodes are busy\n", None),
    ],
)
def test_the_first_failure_in_sruns_words(tmp_path, text, cause):
    (tmp_path / "log").write_text(text)
    assert slurm_srun.first_cause(str(tmp_path / "log")) == cause


def test_srun_is_told_of_its_job_and_of_nothing_else_that_the_agents_step_was_given(tmp_path):
    plan, paths = plan_of(2, 2, launcher="srun"), RunPaths("/runs/r")
    node = {
        **ENVIRON, "SLURM_CONF": "/etc/s", "SLURM_NTASKS": "2", "SLURM_MPI_TYPE": "none", "SLURM_STDOUTMODE": "/log",
    }  # fmt: skip
    ranks = list(NodeLaunch(plan, world_of("a", "b"), plan.nodes[1], paths, node).ranks())
    found = slurm_srun.srun_environment(plan, paths, ranks[0].environment, node)
    assert {name for name in found if name.startswith("SLURM")} == {"SLURM_JOB_ID", "SLURM_CONF"}
    lines = rank_lines(ranks[1], "srun", found)
    assert "export RANK='3'\n" in lines and "export OMPI_COMM_WORLD_RANK='3'\n" in lines and "SLURM" not in lines
