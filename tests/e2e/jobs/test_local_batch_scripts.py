"""Ordinary Slurm batch scripts, run unchanged on virtual nodes of this machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from driver import Cli, Result, wait_for
from tutorials import DDP, HELLO, MULTINODE, TORCHRUN, TRAIN


@pytest.fixture(autouse=True)
def _python_first(cli: Cli) -> None:
    """A batch script has the PATH of the shell that submits it: the tests' own Python is the user's."""
    cli.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + cli.environ["PATH"]


def log(cli: Cli, rank: int, run: str | None = None) -> str:
    return cli.read(run or cli.latest(), "attempt-0", "logs", "rank-%05d.log" % rank)


def script(cli: Cli, body: str, options: str = "-n 1", first: str = "#!/bin/bash") -> str:
    """Its name; its body begins in line 3."""
    cli.write("job.slurm", "%s\n#SBATCH %s\n%s" % (first, options, body))
    return "job.slurm"


def out(cli: Cli, body: str, options: str = "-n 1", first: str = "#!/bin/bash", code: int = 0) -> list[str]:
    """What the batch script itself, and its first task, wrote."""
    result = cli("run", script(cli, body, options, first))
    assert result.code == code, result
    return log(cli, 0).splitlines()


@pytest.mark.exhaustive
@pytest.mark.training
@pytest.mark.timeout(300)
def test_the_ddp_tutorial(cli: Cli) -> None:
    """2 nodes × 2 tasks, MASTER_ADDR from scontrol show hostnames, srun python train.py."""
    pytest.importorskip("torch")
    cli.write("train.py", TRAIN)
    cli.write("ddp.slurm", DDP)
    result = cli("run", "ddp.slurm", timeout=240)
    assert result.code == 0, result
    first = log(cli, 0)
    assert "WORLD_SIZE=4\nMASTER_ADDR=127.0.0.1\n" in first and "Group initialized? True" in first
    for rank in range(4):
        said = log(cli, rank)
        assert "Hello from rank %d of 4 on 127.0.0.%d\n" % (rank, 1 + rank // 2) in said
        assert "trained=True\n" in said
    assert "--mem" in result.err
    assert cli.status()["nodes"] == 2 and cli.status()["ranks"] == 4


@pytest.mark.exhaustive
@pytest.mark.training
@pytest.mark.timeout(300)
def test_its_first_failure(cli: Cli) -> None:
    pytest.importorskip("torch")
    cli.write("train.py", TRAIN)
    cli.write("ddp.slurm", DDP.replace("--epochs=3", "--epochs=3 --fail=2") + 'echo "code $?"; exit 5\n')
    result = cli("run", "ddp.slurm", timeout=240)
    status = cli.status()
    assert result.code == status["exit_code"] == 1
    assert (status["failure"]["rank"], status["failure"]["node_rank"]) == (2, 1)
    assert status["failure"]["exception"]["message"] == "no such sample: 17"
    assert "rank 2 on node 1 (127.0.0.2) exited with code 1: ValueError: no such sample: 17" in result.err
    assert re.search("^code (1|134)$", log(cli, 0), re.MULTILINE), "134: gloo's threads may abort what raised"
    assert "no such sample" in log(cli, 2)


@pytest.mark.training
@pytest.mark.timeout(300)
def test_the_torchrun_tutorial(cli: Cli) -> None:
    """One task per node, srun torchrun --nnodes --nproc_per_node --rdzv_endpoint."""
    pytest.importorskip("torch")
    cli.write("multinode.py", MULTINODE)
    cli.write("torchrun.sbatch", TORCHRUN)
    result = cli("run", "torchrun.sbatch", timeout=240)
    if result.code:  # torchrun's own: of two agents, one may be gone before the other has said good-bye
        result = cli("run", "torchrun.sbatch", timeout=240)
    assert result.code == 0, result
    shared = log(cli, 0) + log(cli, 1)  # the workers of one torchrun share its output: two lines may come as one
    assert sorted(re.findall(r"(rank \d local \d) node \d( sum 6 epochs 5)", shared)) == [
        ("rank %d local %d" % (rank, rank % 2), " sum 6 epochs 5") for rank in range(4)
    ]
    assert "Node IP: 127.0.0.1\n" in log(cli, 0)


def test_the_hello_world_array(cli: Cli) -> None:
    """Each element is a run, with the script's own indices."""
    cli.write("hello.sh", HELLO)
    array = cli.ok("run", "hello.sh").err.split("array ")[1].split(":")[0]
    for element, index in enumerate((2, 4, 6)):
        run = "%s_%d" % (array, element)
        logs = [cli.ok("logs", run, "--rank", str(rank), "--raw").out for rank in range(4)]
        assert "Array task %d of 3 (2-6)\n" % index in logs[0]
        for rank, text in enumerate(logs):
            node = 1 + rank // 2
            assert "Hello world from processor 127.0.0.%d, rank %d out of 4 processors\n" % (node, rank) in text


@pytest.mark.skipif(not shutil.which("mpirun") or not shutil.which("mpicc"), reason="no MPI here")
def test_mpirun_across_virtual_nodes(cli: Cli) -> None:
    cli.write(
        "hello.c",
        "#include <mpi.h>\n#include <stdio.h>\nint main(int c, char **v) { int r, n, s, one = 1; MPI_Init(&c, &v);"
        "MPI_Comm_rank(MPI_COMM_WORLD, &r); MPI_Comm_size(MPI_COMM_WORLD, &n);"
        "MPI_Allreduce(&one, &s, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);"
        'printf("rank %d of %d, sum %d\\n", r, n, s); MPI_Finalize(); return 0; }\n',
    )
    subprocess.run(["mpicc", "-o", "hello", "hello.c"], cwd=cli.project, check=True)
    lines = out(cli, "mpirun ./hello\nmpirun -np 2 ./hello", "-N 2 --ntasks-per-node=2")
    assert {"rank %d of 4, sum 4" % rank for rank in range(4)} <= set(lines)
    assert {"rank %d of 2, sum 2" % rank for rank in range(2)} <= set(lines)


@pytest.mark.exhaustive(
    unless=["export MASTER_ADDR=localhost-MASTER_ADDR is localhost, but line 4 starts tasks on 2 nodes"]
)
@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("export WORLD_SIZE=16  # nodes × tasks", "WORLD_SIZE is 16, but line 4 starts 4 processes"),
        ("export MASTER_ADDR=localhost", "MASTER_ADDR is localhost, but line 4 starts tasks on 2 nodes"),
        ("export RANK=$SLURM_PROCID", "RANK is 0 for all 4 tasks"),
    ],
)
def test_contradictions_are_told_before_anything_starts(cli: Cli, line: str, what: str) -> None:
    """And refused nowhere: only the ranks know what they read."""
    cli.write("train.py", "")
    name = script(cli, line + "\nsrun python train.py\n", "-N 2 --ntasks-per-node=2")
    told = cli.ok("run", name).err
    assert told.index("job.slurm:3: " + what) < told.index("2 nodes, 4 ranks")


def test_all_problems_at_once_with_their_lines(cli: Cli) -> None:
    body = "#SBATCH --mem=3G\nexport MASTER_ADDR=127.0.0.1\nexport WORLD_SIZE=3\nsrun python nosuch.py\n#SBATCH -t 3\n"
    result = cli.ok("run", script(cli, body, "-N 2"), "--dry-run")
    for where in ("job.slurm:4: MASTER_ADDR", "job.slurm:5: WORLD_SIZE", "job.slurm:6: script not found: nosuch.py"):
        assert where in result.err
    assert "warning: job.slurm:7: after the first command (line 4), so Slurm ignores it: #SBATCH -t 3" in result.err


def test_what_is_not_honoured_is_said(cli: Cli) -> None:
    options = "-n 1 --nodez=2 -p gpu --account=me --signal=B:USR1@60 --output=x-%j.out --mail-type=END"
    result = cli.ok("run", script(cli, "source /no/such/activate\nsrun --cpu-bind=cores --mem=1G true\n", options))
    assert "without effect on virtual nodes: --partition, --account" in result.err
    assert "job.slurm:2: --nodez is not an option of sbatch: without effect on virtual nodes" in result.err
    assert "did you mean --nodes?" in result.err
    assert "job.slurm:2: --signal: no signal comes before the time limit" in result.err
    assert "job.slurm:2: --output: what it writes is kept in the run instead" in result.err
    assert "job.slurm:3: no such file on this machine: /no/such/activate (the script continues)" in result.err
    assert "srun: worldsize: without effect on virtual nodes: --cpu-bind, --mem" in log(cli, 0)


SIZES = """\
show='echo $SLURM_PROCID/$SLURM_NTASKS local $SLURM_LOCALID node $SLURM_NODEID/$SLURM_NNODES $SLURMD_NODENAME'
echo "$SLURM_JOB_NUM_NODES $SLURM_NTASKS $SLURM_TASKS_PER_NODE $SLURM_JOB_NODELIST $SLURM_JOB_NAME"
srun bash -c "$show" | sort
echo; srun -n 3 -m cyclic bash -c "$show" | sort
echo; srun -N1 -n1 -w 127.0.0.2 bash -c "$show"
echo; srun -n1 bash -c 'echo $SLURM_STEP_ID $SLURM_STEP_NODELIST $SLURM_JOB_NODELIST $SLURM_STEP_TASKS_PER_NODE'
"""


def test_steps_have_the_size_that_srun_gives_them(cli: Cli) -> None:
    warning = "srun: Warning: can't run 1 processes on 2 nodes, setting nnodes to 1"
    assert out(cli, SIZES, "-N 2 --ntasks-per-node=2 -J name") == [
        "2 4 2(x2) 127.0.0.1,127.0.0.2 name",
        "0/4 local 0 node 0/2 127.0.0.1",
        "1/4 local 1 node 0/2 127.0.0.1",
        "2/4 local 0 node 1/2 127.0.0.2",
        "3/4 local 1 node 1/2 127.0.0.2",
        "",
        "0/3 local 0 node 0/2 127.0.0.1",
        "1/3 local 0 node 1/2 127.0.0.2",
        "2/3 local 1 node 0/2 127.0.0.1",
        "",
        "",
        warning,
        "3 127.0.0.1 127.0.0.1,127.0.0.2 1",
    ]
    assert log(cli, 2) == "0/1 local 0 node 0/1 127.0.0.2\n"


def test_where_the_output_of_a_step_goes(cli: Cli) -> None:
    body = (
        "x=$(srun -n 2 bash -c 'echo value; echo error >&2'); echo got $x\n"
        "srun -n 2 -l bash -c 'echo labelled' | sort\n"
        "srun -n 2 -o 'task-%2t-%j-%N.txt' bash -c 'echo to a file; echo too >&2'; cat task-0[01]-$SLURM_JOB_ID-*\n"
        "srun -n 2 bash -c 'echo in file' > both.txt; sort both.txt\n"
        "srun -n 2 cat <<EOF\nhere\nEOF\n"
        "echo piped | srun -n 1 cat\n"
        "srun -n 2 -e err.txt bash -c 'echo a; echo b >&2'; cat err.txt\n"
        "srun -n 2 bash -c 'seq 1000' | head -n 1\n"
    )
    lines = out(cli, body, "-n 2")
    captured = ["error", "got value value", "0: labelled", "1: labelled"]
    into_files = [*["to a file", "too"] * 3, "in file", "in file", "in file"]
    assert lines == [*captured, *into_files, "here", "piped", "a", "b", "b", "b", "1"]
    assert log(cli, 1).splitlines() == ["error", "to a file", "too", "in file", "here", "a", "b"]


def test_how_steps_end(cli: Cli) -> None:
    """One of each; when each ends, and after how long: tests/unit/wings/batch_scripts/test_step_end.py."""
    body = (
        "srun bash -c 'exit $((SLURM_PROCID * 3))'; echo code $?\n"
        "t=$SECONDS; srun bash -c '[ $SLURM_PROCID = 1 ] && exit 4; sleep 60'; echo code $?\n"
        "echo $((SECONDS - t < 20))\n"
        "srun bash -c 'kill -9 $$'; echo code $?\n"
        "srun -W1 bash -c '[ $SLURM_PROCID = 0 ] || sleep 60'; echo code $?\n"
        "srun -n1 -t 0:01 bash -c 'trap \"\" TERM; sleep 600'; echo code $?\n"
        "srun nosuchprogram; echo code $?\n"
        "srun --nosuchoption x; echo code $?\n"
        "srun -n1 bash -c 'sleep 300 & exit 0'; echo code $?\n"
        "srun --het-group=0 x; echo code $?\n"
        "srun -n2 --multi-prog programs.conf | sort; echo code $?\n"
        "srun -n2 --multi-prog open.conf; echo code $?\n"
    )
    cli.write("worldsize.toml", "[compute.local]\ngrace = 1\n")
    cli.write("open.conf", "0-1 echo '\n")
    cli.write("programs.conf", "# who does what\n0 echo first of %t\n1-2 echo other %t offset %o\n")
    lines = out(cli, body, "-n 3")
    codes = [int(line.split()[1]) for line in lines if line.startswith("code ")]
    assert codes[0] in (3, 6) and codes[1:] == [4, 137, 137, 143, 2, 255, 0, 1, 0, 1]
    assert "1" in lines and "first of 0" in lines and "other 1 offset 0" in lines
    assert "srun: error: 127.0.0.1: task 1: Exited with exit code 4" in lines
    assert "srun: unrecognized option '--nosuchoption'" in lines
    assert cli.status()["state"] == "SUCCEEDED"


def test_steps_in_the_background_share_the_allocation(cli: Cli) -> None:
    """Four at a time, as the script asked for four CPUs; each task in a log of its own while it runs."""
    cli.write(
        "task.sh",
        "touch on.$SLURM_STEP_ID\n"
        'until grep -q disabled "$WORLDSIZE_RUN_DIR/attempt-0/logs/rank-00000.log"; do sleep 0.05; done\n'
        "sleep 0.3; ls on.* | wc -l; rm on.$SLURM_STEP_ID\n",
    )
    body = "for i in 1 2 3 4 5 6 7 8; do\n  srun -n1 --exclusive bash task.sh &\ndone\nwait\n"
    out(cli, body, "-n 4")
    logs = [log(cli, rank).splitlines() for rank in range(4)]
    counts = [int(line) for lines in logs for line in lines if line.isdigit()]
    assert len(counts) == 8 and max(counts) <= 4 and all(any(line.isdigit() for line in lines) for lines in logs)
    assert any("step creation temporarily disabled, retrying" in line for line in logs[0])


def test_a_failed_step_that_the_script_bears_is_no_failure(cli: Cli) -> None:
    assert out(cli, "srun false || echo again\nsrun true\n")[-1] == "again"
    out(cli, "srun false || true\nsrun true\nexit 9\n", code=9)
    assert cli.status()["message"] == "the batch script ended with code 9"


def test_a_script_that_fails_itself(cli: Cli) -> None:
    out(cli, 'python -c "raise KeyError(3)"\nexit 7\n', code=7)
    status = cli.status()
    assert status["failure"]["exception"]["type"] == "KeyError" and status["failure"]["rank"] == 0


def test_programs_of_a_cluster(cli: Cli) -> None:
    body = (
        "set -e\nmodule load cuda/12 && module purge; ml gcc\nconda activate env\nsource activate env\n"
        'eval "$(conda shell.bash hook)"\n'
        "hostname; echo $(srun -n1 -N1 -w 127.0.0.2 hostname -i)\n"
        "scontrol show hostnames | tail -n 1; scontrol show hostnames 'gpu[08-10],x'\nscontrol show hostlist a1,a2\n"
        "scontrol show job $SLURM_JOB_ID | grep -c BatchHost=127.0.0.1\nsqueue -u me; sinfo\n"
        "sbatch other.sh || echo refused\nsbcast job.slurm copy.slurm; cmp job.slurm copy.slurm\n"
    )
    lines = [line for line in out(cli, body, "-N 2") if not line.startswith(("worldsize", "ERROR", "srun: Warning"))]
    assert lines == ["127.0.0.1", "127.0.0.2", "127.0.0.2", "gpu08", "gpu09", "gpu10", "x", "a[1-2]", "1",
                     "sbatch: error: worldsize: not on virtual nodes: sbatch other.sh", "refused"]  # fmt: skip


def test_a_login_shell_finds_the_same(cli: Cli) -> None:
    """A profile that makes PATH anew takes neither our srun nor a configured Python away; BASH_ENV is read too."""
    cli.write("mine.sh", "export MINE=1\n")
    profile = os.path.join(cli.root, ".bash_profile")
    with open(profile, "w") as file:
        file.write("PATH=/usr/bin:/bin\n")
    body = "echo $MINE; srun -n1 python -c 'import sys; print(sys.executable)'; bash -c 'srun -n1 echo inner'\n"
    cli.write("worldsize.toml", "[compute.local]\npython = %s\n" % json.dumps(sys.executable))
    cli.environ["BASH_ENV"] = os.path.join(cli.project, "mine.sh")
    lines = out(cli, body, first="#!/bin/bash -l")
    before = out(cli, body)
    assert lines == before and lines[0] == "1" and lines[-1] == "inner"


def test_a_script_finds_what_the_snapshot_leaves_out(cli: Cli) -> None:
    cli.write(".gitignore", "data\n")
    cli.write("data/deep/x.txt", "42\n")
    cli.write("data/y.txt", "43\n")
    result = cli.ok("run", script(cli, "srun cat data/deep/x.txt\ncat ./data/y.txt\necho new > made.txt\n"))
    assert "leaves out data: the script finds it where it is" in result.err
    assert log(cli, 0).split() == ["42", "43"]
    assert not os.path.exists(os.path.join(cli.project, "made.txt"))
    assert cli.ok("rerun").code == 0 and log(cli, 0).split() == ["42", "43"]


def test_another_size_and_another_directory(cli: Cli) -> None:
    cli.write("src/here.txt", "")
    name = script(cli, "srun bash -c 'ls here.txt; echo $SLURM_NTASKS $SLURM_NNODES'\n", "-N 1 --chdir=src")
    cli.ok("run", name, "-w", "2x3")
    assert [log(cli, rank).split() for rank in range(6)] == [["here.txt", "6", "2"]] * 6
    os.rename(os.path.join(cli.project, "src"), os.path.join(cli.project, "other"))
    assert cli("run", name).code == 2
    cli.ok("run", name, "--code", "other")
    assert cli.json("list")[0]["name"] == "job.slurm"


def test_the_time_limit_of_the_script(cli: Cli) -> None:
    result = cli("run", script(cli, "srun sleep 60\n", "-t 0:01 -n 2"))
    status = cli.status()
    assert (result.code, status["state"], status["reason"]) == (124, "FAILED", "TIME_LIMIT")


def test_cancel_ends_every_task(cli: Cli) -> None:
    """One that listens by TERM, and one that does not by KILL; the fixture looks for what is left."""
    cli.write("worldsize.toml", "[compute.local]\ngrace = 60\n")
    task = (
        'if [ $SLURM_PROCID = 0 ]; then trap "" TERM; else trap "touch outputs/told; exit" TERM; fi\n'
        "touch outputs/up-$SLURM_PROCID\nsleep 300 & while :; do sleep 0.1; done\n"
    )
    cli.write("task.sh", task)
    body = "srun bash task.sh &\nwait\n"
    run = cli.submit(script(cli, body, "-n 2"), "--set", "grace=1")
    wait_for(lambda: all(os.path.exists(cli.path(run, "outputs", "up-%d" % rank)) for rank in (0, 1)))
    cli.ok("cancel", run)
    assert cli("wait", run).code == 130
    assert os.path.exists(cli.path(run, "outputs", "told"))
    wait_for(lambda: not cli.processes())


def test_a_script_that_ends_well_once_its_run_is_cancelled_has_not_succeeded(cli: Cli) -> None:
    """Its steps were ended, of which its code tells nothing; the agent may hear of the cancel after that."""
    body = "touch outputs/up\nuntil [ -e $WORLDSIZE_RUN_DIR/cancel.json ]; do sleep 0.02; done\n"
    run = cli.submit(script(cli, body))
    wait_for(lambda: os.path.exists(cli.path(run, "outputs", "up")))
    with open(cli.path(run, "cancel.json"), "w") as file:
        file.write("{}")
    assert cli("wait", run).code == 130 and cli.status(run)["state"] == "CANCELLED"


def test_signals_of_the_users_reach_tasks(cli: Cli) -> None:
    cli.write("task.sh", "trap told=1 USR1\ntouch outputs/up\nuntil [ $told ]; do sleep 0.02; done\necho told\n")
    body = "srun bash task.sh & step=$!\nuntil [ -e outputs/up ]; do sleep 0.02; done\nkill -USR1 $step\nwait $step\n"
    assert out(cli, body) == ["told"]


def test_gpus_are_those_that_slurm_would_show(cli: Cli) -> None:
    body = (
        "echo $SLURM_GPUS_ON_NODE $CUDA_VISIBLE_DEVICES\n"
        "srun -l bash -c 'echo $CUDA_VISIBLE_DEVICES' | sort\n"
        "srun -l --gpus-per-task=2 bash -c 'echo $CUDA_VISIBLE_DEVICES' | sort\n"
        "srun -n1 --gres=gpu:1 bash -c 'echo $CUDA_VISIBLE_DEVICES'\n"
        "srun -n1 --gres=none bash -c 'echo x$CUDA_VISIBLE_DEVICES'\n"
    )
    expected = ["4 0,1,2,3", "0: 0,1,2,3", "1: 0,1,2,3", "0: 0,1", "1: 2,3", "0", "x"]
    assert out(cli, body, "-n 2 --gres=gpu:4") == expected


def test_what_is_exported_to_tasks(cli: Cli) -> None:
    body = (
        "export A=1 B=2\nsrun bash -c 'echo $A$B'; srun --export=ALL,A=3 bash -c 'echo $A$B'\n"
        "srun --export=A,PATH bash -c 'echo [$A$B] $SLURM_PROCID'\nA=5 srun env | grep -c ^A=5\n"
    )
    assert out(cli, body) == ["12", "32", "[1] 0", "1"]


def test_programs_are_those_of_the_users_path(cli: Cli) -> None:
    """As with sbatch: the directory of our own Python may hold other programs of the same names."""
    for name in ("python", "accelerate"):
        cli.write("bin/" + name, "#!/bin/sh\necho my %s\n" % name)
        os.chmod(os.path.join(cli.project, "bin", name), 0o755)
    cli.environ["PATH"] = os.path.join(cli.project, "bin") + os.pathsep + cli.environ["PATH"]
    assert out(cli, "accelerate\nsrun accelerate\npython\n") == ["my accelerate", "my accelerate", "my python"]


def test_names_that_slurm_has_for_the_job_and_its_processes(cli: Cli) -> None:
    body = "echo $SLURM_JOB_NAME $SLURM_JOB_QOS\n"
    assert out(cli, body) == ["job.slurm normal"]
    assert out(cli, body, "-J mine --qos=high") == ["mine high"]
    tasks = "srun -n2 -l bash -c '[ $SLURM_TASK_PID = $$ ]; echo $? $SLURM_LABELIO' | sort\n"
    script_own = "[ $SLURM_TASK_PID = $$ ]; echo $?\n"
    expected = ["0", "0: 0 1", "1: 0 1", "0 unset"]
    unlabelled = "srun -n1 sh -c '[ $SLURM_TASK_PID = $$ ]; echo $? ${SLURM_LABELIO-unset}'\n"
    assert out(cli, script_own + tasks + unlabelled, "-n 2") == expected
    assert out(cli, script_own, first="#!/bin/sh") == ["0"]


def test_dry_run_and_job_file(cli: Cli) -> None:
    cli.write("train.py", "import os\nprint('rank', os.environ['SLURM_PROCID'], os.environ['LR'])\n")
    name = script(cli, "module load x\nexport LR=0.1\nsrun python train.py\n", "-N 2 --ntasks-per-node=2 -p gpu")
    result = cli.ok("run", name, "--dry-run")
    assert "SLURM_JOB_NODELIST=127.0.0.1,127.0.0.2" in result.out and "/inrank/script.sh" in result.out
    assert cli.json("list") == []
    cli.write("job.yml", cli.ok("import", name).out)
    same: Result = cli.ok("run", "job.yml", "--dry-run")
    assert (same.out, same.err) == (result.out, result.err)
    run = cli.run("job.yml")
    assert [log(cli, rank).splitlines()[-1:] for rank in range(4)] == [["rank %d 0.1" % rank] for rank in range(4)]
    assert cli.status(run)["name"] == "job.slurm"
    os.unlink(os.path.join(cli.project, name))
    assert "job.yml:4: batch_script: cannot read the batch script" in cli("run", "job.yml").err
    cli.ok("rerun", run, "-w", "1x1")
    assert log(cli, 0).splitlines()[-1:] == ["rank 0 0.1"] and cli.status()["ranks"] == 1
    again = cli.latest()
    cli.ok("rerun", again)
    assert cli.status()["ranks"] == 1, "the run's record keeps its size, whatever its script says"
    differences = cli.ok("diff", run, again).out
    assert "instance_count" in differences and "batch_script" not in differences


def test_an_element_of_an_array_is_run_again_alone(cli: Cli) -> None:
    name = script(cli, "echo element $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT\n", "--array=2,4 -n 1")
    array = cli.ok("run", name).err.split("array ")[1].split(":")[0]
    cli.ok("rerun", array + "_1")
    assert "_" not in cli.latest() and log(cli, 0) == "element 4 of 2\n"


def test_a_script_of_another_language(cli: Cli) -> None:
    cli.write(
        "job.slurm",
        "#!/usr/bin/env python3\n#SBATCH -N 2\nimport os, subprocess\nexport = 'WORLD_SIZE=16'\n"
        "subprocess.run(['srun', 'bash', '-c', 'echo task $SLURM_PROCID'], check=True)\n",
    )
    cli.ok("run", "job.slurm")
    assert [log(cli, rank) for rank in (0, 1)] == ["task 0\n", "task 1\n"]


def test_an_agent_that_is_started_by_hand(cli: Cli) -> None:
    """By a relative path, as `python agent.pyz` in a copy of the run directory."""
    run = cli.run(script(cli, "srun echo task $1\n", "-n 2"))
    root = cli.path(run)
    for name in ("result.json", "handle.json"):
        os.unlink(os.path.join(root, name))
    shutil.rmtree(os.path.join(root, "attempt-0"))
    done = subprocess.run([sys.executable, "-I", "-S", "agent.pyz", ".", "--node-rank", "0"], cwd=root)
    assert done.returncode == 0 and [log(cli, rank, run) for rank in (0, 1)] == ["task\n", "task\n"]


def test_import_from_standard_input(cli: Cli) -> None:
    """Its bytes stay what they are."""
    text = b"#!/bin/bash\n#SBATCH -N 2\nsrun echo 'caf\xe9' $SLURM_PROCID\n"
    words = [sys.executable, "-m", "worldsize", "import", "-"]
    done = subprocess.run(words, input=text, cwd=cli.project, env=cli.environ, capture_output=True)
    assert done.returncode == 0, done
    cli.write("job.yml", done.stdout.decode())
    cli.ok("run", "job.yml")
    for rank in range(2):
        with open(cli.path(cli.latest(), "attempt-0", "logs", "rank-%05d.log" % rank), "rb") as file:
            assert file.read() == b"caf\xe9 0\n"


def test_mistakes_in_what_is_imported(cli: Cli) -> None:
    assert cli("import", "nosuch.slurm").code == 2
    script(cli, "srun ./a\n", "--requeue=2")
    result: Result = cli("import", "job.slurm")
    assert result.code == 2 and "job.slurm:2" in result.err and "takes no value" in result.err
