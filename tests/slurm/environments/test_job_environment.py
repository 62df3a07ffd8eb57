"""What surrounds a submission does not reach the ranks, and what the job says reaches them exactly."""

from __future__ import annotations

import json
import os

from slurm.cluster import Cluster
from slurm.login import Login, login_of

ENVIRONMENT = "env -0 > outputs/env-$RANK"
SHELL = {
    "SLURM_CPU_BIND": "map_cpu:0",
    "SLURM_CPU_BIND_TYPE": "map_cpu:",
    "SLURM_EXPORT_ENV": "NONE",
    "SLURM_NTASKS": "99",
    "SLURM_NNODES": "7",
    "SLURM_NODEID": "5",
    "SLURM_PROCID": "41",
    "SLURM_MEM_PER_NODE": "1",
    "SLURM_DISTRIBUTION": "plane=3",
    "SLURM_HINT": "nomultithread",
    "SLURM_RESTART_COUNT": "3",
    "SLURM_WCKEY": "x",
    "SBATCH_PARTITION": "nowhere",
    "SBATCH_TIMELIMIT": "1",
    "SBATCH_EXPORT": "NONE",
    "SBATCH_EXCLUSIVE": "user",
    "SBATCH_MEM_PER_NODE": "15000",
    "SBATCH_OVERCOMMIT": "1",
    "SRUN_CPUS_PER_TASK": "1",
    "SQUEUE_FORMAT": "%i",
    "SQUEUE_STATES": "PENDING",
    "SACCT_FORMAT": "jobid",
    "SINFO_FORMAT": "%n",
    "SLURM_TIME_FORMAT": "relative",
    "PMI_RANK": "3",
    "PMI_SIZE": "9",
    "PMIX_RANK": "3",
    "PMIX_NAMESPACE": "other",
    "OMPI_COMM_WORLD_SIZE": "11",
    "RANK": "3",
    "WORLD_SIZE": "7",
}
"""What an outer allocation, `srun --pty bash` or a site's start-up files leave in a shell."""

OF_THE_RUN = ("JOB_ID", "JOBID", "PORT", "TIME", "MASTER_NODE", "JAX_COORDINATOR_ADDRESS")


def environments(login: Login, run: str, ranks: int) -> list[dict[str, str]]:
    found = []
    for rank in range(ranks):
        entries = login.read(run, "outputs", "env-%d" % rank).replace(run, "RUN").split("\0")
        found.append(dict(entry.split("=", 1) for entry in entries if entry))
    return found


def test_traces_of_the_submitting_shell_change_nothing(login: Login) -> None:
    plain, traced = [], []
    for environ, into in (({}, plain), (SHELL, traced)):
        assert login("run", login.job(ENVIRONMENT, "2x2"), **environ).code == 0
        run = login.latest()
        into += environments(login, run, 4)
        asked = ["scontrol", "show", "job", login.native(run)]
        # the backfill scheduler calls a partition's "no limit" a year, once it has thought about the job
        words = login.cluster.command(*asked).replace("=365-00:00:00", "=UNLIMITED").split()
        into.append(
            {word.partition("=")[0]: word for word in words if word.startswith(("Time", "Part", "Num", "Min", "Over"))}
        )
        assert login.json("status", run, **environ)["state"] == "SUCCEEDED"
    for one, other in zip(plain, traced, strict=True):
        assert set(one) == set(other)
        differing = {name for name in one if one[name] != other[name] and not name.endswith(OF_THE_RUN)}
        assert not differing, {name: (one[name], other[name]) for name in differing}


VALUES = {
    "WORDS": "two words",
    "COMMAS": "a,b=c,d",
    "LINES": "first\nsecond\n\n",
    "QUOTES": 'it\'s "so" `date` $(date) $HOME \\ %j',
    "EMPTY": "",
    "UNICODE": "ü 数 🦊",
    "LONG": "x" * 60_000,
    "NCCL_SOCKET_IFNAME": "^lo,docker0",
}


WORDS = ["a b", "$HOME", "*", "'", '"', "\\", "%j", "--x=1,2", "", "a\nb", "ALL"]


def test_values_and_words_arrive_exactly_and_no_other_way(login: Login) -> None:
    login.write(
        "show.py",
        "import json, os, sys\n"
        "json.dump([dict(os.environ), sys.argv[1:]], open('outputs/%s.json' % os.environ['RANK'], 'w'))\n",
    )
    sets = [
        "environment_variables.%s=%s" % (name, json.dumps(value, ensure_ascii=False)) for name, value in VALUES.items()
    ]
    options = [word for each in sets for word in ("--set", each)]
    run = login.run("-w", "2x1", *options, "--", "python", "show.py", *WORDS)
    for rank in (0, 1):
        found, words = json.loads(login.read(run, "outputs", "%d.json" % rank))
        assert {name: found[name] for name in VALUES} == VALUES
        assert words == WORDS
    assert "a,b=c,d" not in login.read(run, "submission.txt"), "they travel in the plan"


def test_the_computes_modules_and_setup_come_before_the_jobs(slurm: Cluster) -> None:
    config = 'modules = ["site/1.0"]\nsetup = ["ORDER=$ORDER,site-setup"]\n'
    with login_of(slurm, config) as login:
        for name in ("site", "own"):
            login.write("modules/%s/1.0" % name, "#%%Module\nappend-path -d , ORDER %s-module\n" % name)
        job = login.job(
            "echo $ORDER > outputs/$RANK", "2x1", modules=["own/1.0"], setup=["export ORDER=$ORDER,own-setup"]
        )
        assert login("run", job, MODULEPATH=os.path.join(login.project, "modules")).code == 0
        for rank in "01":
            order = login.read(login.latest(), "outputs", rank).strip()
            assert order == "site-module,own-module,site-setup,own-setup"
