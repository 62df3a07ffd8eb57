"""`scontrol` inside a batch script on virtual nodes: what scripts ask it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from worldsize.plan.hostlist import expand_hostlist, fold_hostlist


def scontrol(words: Sequence[str]) -> int:
    """Answers `show hostnames`, `show hostlist` and `show job`; says of anything else that it cannot."""
    plain = [word for word in words if not word.startswith("-")]
    what = plain[1].lower() if len(plain) > 1 else ""
    try:
        if plain[:1] == ["show"] and what and "hostnames".startswith(what) and len(what) > 4:
            print("\n".join(expand_hostlist(" ".join(plain[2:]) or _variable("SLURM_JOB_NODELIST"))))
            return 0
        if plain[:1] == ["show"] and what in ("hostlist", "hostlistsorted"):
            print(fold_hostlist(expand_hostlist(" ".join(plain[2:]))))
            return 0
    except ValueError as error:
        sys.stderr.write(f"scontrol: error: {error}\n")
        return 1
    if plain[:1] == ["show"] and what in ("job", "jobs", "jobid"):
        return _show_job(plain[2:])
    sys.stderr.write("scontrol: error: worldsize: not on virtual nodes: scontrol {}\n".format(" ".join(words)))
    return 1


def _variable(name: str) -> str:
    return os.environ.get(name, "")


def _show_job(wanted: Sequence[str]) -> int:
    number = _variable("SLURM_JOB_ID")
    if wanted and wanted[0] != number:
        sys.stderr.write("slurm_load_jobs error: Invalid job id specified\n")
        return 1
    print(
        "JobId={} JobName={}\n   UserId={}({})\n   JobState=RUNNING Reason=None Dependency=(null)\n"
        "   Requeue=0 Restarts={} BatchFlag=1 ExitCode=0:0\n   Partition={}\n   NodeList={}\n   BatchHost={}\n"
        "   NumNodes={} NumTasks={} CPUs/Task={}\n   WorkDir={}\n   StdOut={}\n".format(
            number, _variable("SLURM_JOB_NAME"), _variable("SLURM_JOB_USER"), _variable("SLURM_JOB_UID"),
            _variable("SLURM_RESTART_COUNT") or "0", _variable("SLURM_JOB_PARTITION"), _variable("SLURM_JOB_NODELIST"),
            _variable("SLURMD_NODENAME"), _variable("SLURM_JOB_NUM_NODES"),
            _variable("SLURM_NTASKS") or _variable("SLURM_JOB_NUM_NODES"),
            _variable("SLURM_CPUS_PER_TASK") or "1", _variable("SLURM_SUBMIT_DIR"), _variable("WORLDSIZE_BATCH_LOG"),
        )
    )  # fmt: skip
    return 0
