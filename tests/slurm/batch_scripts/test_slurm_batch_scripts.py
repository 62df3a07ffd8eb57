"""The same batch scripts on a real cluster, where their srun is the real one; and our srun against that one."""

from __future__ import annotations

import os
import sys

import pytest
from driver import wait_for
from slurm import machine
from slurm.login import PATIENCE, Login
from tutorials import DDP, HELLO, TRAIN

SAME = (
    "PROCID", "LOCALID", "NODEID", "GTIDS", "NTASKS", "NPROCS", "NNODES", "JOB_NUM_NODES", "TASKS_PER_NODE",
    "NTASKS_PER_NODE", "CPUS_PER_TASK", "STEP_ID", "STEPID", "STEP_NODELIST", "STEP_NUM_NODES", "STEP_NUM_TASKS",
    "STEP_TASKS_PER_NODE", "JOB_NODELIST", "NODELIST", "JOB_NAME", "JOB_CPUS_PER_NODE", "CPUS_ON_NODE",
    "GPUS_ON_NODE", "DISTRIBUTION", "MEM_PER_NODE", "UMASK", "PRIO_PROCESS", "TOPOLOGY_ADDR",
    "TOPOLOGY_ADDR_PATTERN", "LABELIO", "JOB_USER", "JOB_UID", "JOB_GID",
)  # fmt: skip
"""What a task is told that does not depend on the cluster."""

OF_OLDER_SLURM = {"CPUS_ON_NODE", "STEP_NODELIST", "TOPOLOGY_ADDR"}
"""Ours is 22.05's. In 24.11 the steps of a job with --cpus-per-task (SLURM_TRES_PER_TASK) are --exact, and one that
needs fewer nodes than the job has may get any of them."""

STEPS = [
    "srun %s",
    "srun -n1 %s",
    "srun -N1 -n1 %s",
    "srun -N2 %s",
    "srun -n 3 %s",
    "srun -n 2 --ntasks-per-node=1 %s",
    "srun --ntasks-per-node=1 %s",
    "srun -w $(scontrol show hostnames | tail -n 1) -N1 -n1 %s",
    "srun -m cyclic %s",
    "srun -l %s",
    "srun -m plane=1 -n3 %s",
    "srun -r 1 -N1 -n1 %s",
    "srun -n 2 -c 2 --exact %s",
]
CODES = [
    "srun bash -c 'exit $SLURM_PROCID'",
    "srun -K0 bash -c '[ $SLURM_PROCID = 1 ] && exit 9; exit 0'",
    "srun -n1 bash -c 'kill -SEGV $$'",
    "srun nosuchprogram",
    "srun --nosuchoption true",
    "srun",
    "srun -N $(echo 3) -n 3 true",
    "srun -n1 -t 0:30 --overlap true",
]


@pytest.fixture(autouse=True)
def _python_first(login: Login) -> None:
    """A batch script has the PATH of the shell that submits it: the tests' own Python is the user's."""
    login.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + login.environ["PATH"]


def both(login: Login, body: str, options: str) -> tuple[str, str]:
    """The ids of a run on virtual nodes and of one on the cluster."""
    login.write("job.slurm", "#!/bin/bash\n#SBATCH %s\n%s" % (options, body))
    return tuple(login.run("job.slurm", "--compute", compute) for compute in ("local", "slurm"))  # type: ignore[return-value]


def told(login: Login, run: str, step: int, task: int) -> dict[str, str]:
    """The variables of a task, the nodes by their place."""
    text = login.read(run, "outputs", "%d.%d" % (step, task))
    for place in (1, 2):
        text = text.replace("127.0.0.%d" % place, "node%d" % place)
    text = text.replace("node1,node2", "node[1-2]")
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


STEPS_OVER = """
steps_over() { while squeue -hs -j $SLURM_JOB_ID -o %i 2>/dev/null | grep -q '[.][0-9][0-9]*$'; do sleep 0.1; done; }
"""
"""Slurm gives a step of one node the second one while the step before it still holds the first."""


def test_our_srun_tells_tasks_what_the_real_one_does(login: Login) -> None:
    with open(os.path.join(login.project, "worldsize.toml"), "a") as file:
        file.write('python = "/usr/bin/python3"\n')  # where no other user can make an entry: no step before ours
    task = "bash -c 'env | grep ^SLURM >outputs/%d.$SLURM_PROCID'"
    body = STEPS_OVER + "".join(step % (task % number) + "\nsteps_over\n" for number, step in enumerate(STEPS))
    ours, real = both(login, body, "-J name -N2 --ntasks-per-node=2 -c 2 --mem=100 -w node[1-2] --gpus-per-node=2")
    names = sorted(os.listdir(login.path(real, "outputs")))
    assert names == sorted(os.listdir(login.path(ours, "outputs"))) and len(names) > 25
    for name in names:
        step, number = map(int, name.split("."))
        one, other = told(login, ours, step, number), told(login, real, step, number)
        different = {
            key: (one.get("SLURM_" + key), other.get("SLURM_" + key))
            for key in SAME
            if (key not in OF_OLDER_SLURM or machine.slurm_version() == (22, 5))
            and one.get("SLURM_" + key) != other.get("SLURM_" + key)
        }
        assert not different, (STEPS[step], number, different)


def test_our_srun_ends_as_the_real_one_does(login: Login) -> None:
    body = "export SLURM_KILL_BAD_EXIT=0\n"
    body += "".join("%s 2>>outputs/said\necho $? | tee -a outputs/said >>outputs/codes\n" % line for line in CODES)
    ours, real = both(login, body, "-N2 --ntasks-per-node=2 -w node[1-2]")
    codes = [login.read(run, "outputs", "codes").split() for run in (ours, real)]
    said = login.read(real, "outputs", "said")
    assert dict(zip(CODES, codes[0], strict=True)) == dict(zip(CODES, codes[1], strict=True)), said


@pytest.mark.exhaustive
@pytest.mark.timeout(300)
def test_the_ddp_tutorial_unchanged(login: Login) -> None:
    """2 nodes × 2 tasks, MASTER_ADDR from scontrol show hostnames, srun python train.py: on both computes."""
    pytest.importorskip("torch")
    login.write("train.py", TRAIN)
    login.write("ddp.slurm", DDP)
    for compute in ("local", "slurm"):
        run = login.run("ddp.slurm", "--compute", compute)
        logs = [login.read(run, "attempt-0", "logs", "rank-%05d.log" % rank) for rank in range(4)]
        assert "WORLD_SIZE=4\n" in logs[0] and "Group initialized? True" in logs[0]
        for rank, text in enumerate(logs):
            assert "Hello from rank %d of 4 on " % rank in text and "trained=True\n" in text
    login.nothing_left(run)


@pytest.mark.exhaustive
@pytest.mark.timeout(300)
def test_its_first_failure_is_named(login: Login) -> None:
    pytest.importorskip("torch")
    login.write("train.py", TRAIN)
    login.write("ddp.slurm", DDP.replace("--epochs=3", "--epochs=3 --fail=2"))
    run = login.submit("ddp.slurm")
    status = login.ended(run, 120)
    assert (status["state"], status["exit_code"]) == ("FAILED", 1)
    assert (status["failure"]["rank"], status["failure"]["node_rank"]) == (2, 1)
    assert status["failure"]["exception"]["message"] == "no such sample: 17"
    assert "rank 2 on node 1 (node" in status["message"]


def test_an_array_with_the_scripts_own_indices(login: Login) -> None:
    login.write("hello.sh", HELLO.replace("module load openmpi", ""))
    array = login.ok("run", "hello.sh").err.split("array ")[1].split(":")[0]
    for element, index in enumerate((2, 4, 6)):
        logs = [login.ok("logs", "%s_%d" % (array, element), "--rank", str(rank), "--raw").out for rank in range(4)]
        assert "Array task %d of 3 (2-6)\n" % index in logs[0]
        assert all("rank %d out of 4 processors" % rank in text for rank, text in enumerate(logs))


def test_its_own_options_reach_sbatch(login: Login) -> None:
    options = "-N 1-2 -n 3 -p low --comment='two words' --mail-type=NONE --exclusive=user -t 7"
    login.write("job.slurm", "#!/bin/bash\n#SBATCH %s\nsrun true\n" % options)
    text = login.ok("run", "job.slurm", "--dry-run", "--set", "slurm.partition=main").out
    said = [line for line in text.splitlines() if line.startswith("#SBATCH")]
    for option in ("nodes=1-2", "ntasks=3", "partition=main", 'comment="two words"', "exclusive=user", "time=7"):
        assert "#SBATCH --" + option in said, said
    login.run("job.slurm")


def test_submitted_by_hand(login: Login) -> None:
    login.write(
        "job.slurm", "#!/bin/bash -l\n#SBATCH -N2 --ntasks-per-node=2\nsrun bash -c 'echo task $SLURM_PROCID'\n"
    )
    script = login.write("job.sh", login.ok("run", "job.slurm", "--dry-run").out)
    login.cluster.command("sbatch", "--wait", "--output=/dev/null", script, timeout=PATIENCE)
    run = login.latest()
    assert login.status(run)["state"] == "SUCCEEDED"
    assert [login.read(run, "attempt-0", "logs", "rank-%05d.log" % rank) for rank in range(4)] == [
        "task %d\n" % rank for rank in range(4)
    ]


def test_the_batch_shells_signal_and_a_cancel(login: Login) -> None:
    """Slurm signals the batch shell: what stands there passes it on to the script."""
    body = (
        "trap 'touch outputs/told' USR1\nsrun bash -c 'touch outputs/up-$SLURM_PROCID; exec sleep 120' &\n"
        "until [ -e outputs/told ]; do wait; done\nwait\n"
    )
    login.write("job.slurm", "#!/bin/bash\n#SBATCH -N2 --signal=B:USR1@60\n" + body)
    run = login.submit("job.slurm")
    wait_for(lambda: login.left(run, "up-0") and login.left(run, "up-1") and login.has_begun(run), PATIENCE)
    login.cluster.command("scancel", "--batch", "--signal=USR1", login.native(run))
    wait_for(lambda: login.left(run, "told"))
    assert login.status(run)["state"] == "RUNNING"
    login.ok("cancel", run)
    assert login.ended(run)["state"] == "CANCELLED"


def test_contradictions_are_told_before_it_is_submitted(login: Login) -> None:
    login.write("job.slurm", "#!/bin/bash\n#SBATCH -N 2\nexport WORLD_SIZE=16\nsrun bash -c 'python -V'\n")
    told = login.ok("run", "job.slurm").err
    assert told.index("job.slurm:3: WORLD_SIZE is 16, but line 4 starts 2 processes") < told.index("2 nodes")


@pytest.mark.exhaustive(unless=["--nodez=2-unrecognized option '--nodez=2'", "--partition=nowhere-invalid partition"])
@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--nodez=2", "unrecognized option '--nodez=2'"),
        ("--partition=nowhere", "invalid partition"),
        ("--constraint=nosuch", "nvalid feature"),
        ("--time=x", "time"),
    ],
)
def test_what_sbatch_refuses_is_told_in_its_words_with_the_scripts_line(login: Login, option: str, words: str) -> None:
    login.write("job.slurm", "#!/bin/bash\n#SBATCH -n 1\n#SBATCH %s\nsrun true\n" % option)
    told = login.refused("run", "job.slurm").err
    assert "job.slurm:3: " in told and words in told


def test_a_failed_step_that_the_script_bears_is_told(login: Login) -> None:
    body = (
        "srun bash -c 'exit $((3 * SLURM_PROCID))'\n"
        "srun bash -c 'touch outputs/up-$SLURM_PROCID; exec sleep 60' &\n"
        "until [ -e outputs/up-0 ] && [ -e outputs/up-1 ]; do sleep 0.05; done\nkill %1; wait\necho done\n"
    )
    login.write("job.slurm", "#!/bin/bash\n#SBATCH -n 2\n" + body)
    for compute in ("slurm", "local"):
        status = login.status(login.run("job.slurm", "--compute", compute))
        told = [(each["id"], each["rank"], "code 3" in each["text"]) for each in status["warnings"]]
        assert told == [("failed-step", 1, True)], status


def test_an_option_that_only_this_cluster_knows(login: Login) -> None:
    """As those of SPANK plug-ins: a stand-in for sbatch takes it, and gives the rest to the real one."""
    login.write("job.slurm", "#!/bin/bash\n#SBATCH -n 1\n#SBATCH --lab-image trixie\nsrun echo here\n")
    taken = os.path.join(login.project, "taken")
    script = (
        "text=$(cat; echo .)\n"
        "grep -q '^#SBATCH --lab-image=trixie$' <<<\"$text\" && touch %s\n"
        'grep -v "^#SBATCH --lab-image" <<<"${text%%.}" | exec $REAL "$@"' % taken
    )
    assert login("run", "job.slurm", **login.shadow("sbatch", script)).code == 0
    assert os.path.exists(taken)
