"""`scontrol` inside a batch script on virtual nodes: what scripts ask it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from worldsize.plan.slurm.hostlist import expand, fold


def scontrol(words: Sequence[str]) -> int:
    """Answers `show hostnames`, `show hostlist` and `show job`; says of anything else that it cannot."""
    plain = [word for word in words if not word.startswith("-")]
    what = plain[1].lower() if len(plain) > 1 else ""
    try:
        if plain[:1] == ["show"] and what and "hostnames".startswith(what) and len(what) > 4:
            print("\n".join(expand(" ".join(plain[2:]) or _own("SLURM_JOB_NODELIST"))))
            return 0
        if plain[:1] == ["show"] and what in ("hostlist", "hostlistsorted"):
            print(fold(expand(" ".join(plain[2:]))))
            return 0
    except ValueError as error:
        sys.stderr.write("scontrol: error: %s\n" % error)
        return 1
    if plain[:1] == ["show"] and what in ("job", "jobs", "jobid"):
        return _show_job(plain[2:])
    sys.stderr.write("scontrol: error: worldsize: not on virtual nodes: scontrol %s\n" % " ".join(words))
    return 1


def _own(name: str) -> str:
    return os.environ.get(name, "")


def _show_job(wanted: Sequence[str]) -> int:
    number = _own("SLURM_JOB_ID")
    if wanted and wanted[0] != number:
        sys.stderr.write("slurm_load_jobs error: Invalid job id specified\n")
        return 1
    print(
        "JobId=%s JobName=%s\n   UserId=%s(%s)\n   JobState=RUNNING Reason=None Dependency=(null)\n"
        "   Requeue=0 Restarts=%s BatchFlag=1 ExitCode=0:0\n   Partition=%s\n   NodeList=%s\n   BatchHost=%s\n"
        "   NumNodes=%s NumTasks=%s CPUs/Task=%s\n   WorkDir=%s\n   StdOut=%s\n"
        % (
            number, _own("SLURM_JOB_NAME"), _own("SLURM_JOB_USER"), _own("SLURM_JOB_UID"),
            _own("SLURM_RESTART_COUNT") or "0", _own("SLURM_JOB_PARTITION"), _own("SLURM_JOB_NODELIST"),
            _own("SLURMD_NODENAME"), _own("SLURM_JOB_NUM_NODES"), _own("SLURM_NTASKS") or _own("SLURM_JOB_NUM_NODES"),
            _own("SLURM_CPUS_PER_TASK") or "1", _own("SLURM_SUBMIT_DIR"), _own("WORLDSIZE_BATCH_LOG"),
        )
    )  # fmt: skip
    return 0
