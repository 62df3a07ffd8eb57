"""Programs on PATH that answer as squeue, sacct, sinfo, sbatch and scancel of a given Slurm release do.

What differs between releases is taken from Slurm's sources of 20.11 to 25.05: the columns that each knows, what it says
of one it does not know, exit codes (raw wait status in squeue before 23.02), an unknown job id alone (an error) and
among others (left out), SLURM_TIME_FORMAT. The programs can also misbehave: `FakeSlurm.mode`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from worldsize.compute.slurm.commands import run_slurm

_PROGRAM = Path(__file__).with_name("slurm_fake_program.py")

VERSIONS = ("20.11", "21.08", "22.05", "23.02", "23.11", "24.05", "24.11", "25.05")
_FIRST_AND_LAST = (VERSIONS[0], VERSIONS[-1])
EACH_VERSION = [pytest.param(name, marks=() if name in _FIRST_AND_LAST else pytest.mark.heavy) for name in VERSIONS]
"""As parameters: each question starts programs, so between the oldest and the newest they are not of test-fast."""


SQUEUE_COLUMNS = """
account arrayjobid arraytaskid batchhost command comment dependency endtime exit_code feature gres jobarrayid
jobid licenses name nodelist nodes numcpus numnodes partition priority qos reason reasonlist reqnodes requeue
reservation restartcnt schednodes starttime state statecompact submittime timeleft timelimit timeused
tres-alloc tres-per-node userid username
"""
SACCT_FIELDS = """
Account AllocCPUS AllocNodes AllocTRES AveRSS CPUTime CPUTimeRAW Cluster Comment DBIndex DerivedExitCode
Elapsed ElapsedRaw Eligible End ExitCode Flags JobID JobIDRaw JobName MaxRSS NCPUS NNodes NTasks NodeList
Partition Priority QOS Reason ReqTRES Start State Submit Suspended SystemCPU Timelimit TimelimitRaw TotalCPU
UID User UserCPU WorkDir
"""
SACCT_ONLY = {"Reserved": ("20.11", "22.05"), "Planned": ("23.02", "25.05"), "Restarts": ("24.11", "25.05")}

AWAY = {
    "squeue": "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
    "sacct": "sacct: error: slurm_persist_conn_open_without_init: failed to open persistent connection to "
    "host:db:6819: Connection refused\nsacct: error: Problem talking to the database: Connection refused",
    "sinfo": "slurm_load_partitions: Unable to contact slurm controller (connect failure)",
    "sbatch": "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
    "scancel": "scancel: error: Kill job error on job id 1: Unable to contact slurm controller (connect failure)",
}


class FakeSlurm:
    """A folder of programs, and what they are to answer."""

    def __init__(self, folder: Path, version: str = "22.05") -> None:
        self.folder = folder
        self.version = version
        fields = SACCT_FIELDS.split()
        fields += [name for name, (first, last) in SACCT_ONLY.items() if first <= version <= last]
        self._state: dict[str, Any] = {
            "version": version,
            "modes": {},
            "jobs": [],
            "records": [],
            "sinfo": "",
            "trials": {},
            "submitted": "1234",
            "squeue_columns": SQUEUE_COLUMNS.split(),
            "sacct_fields": fields,
            "away": AWAY,
        }
        programs = folder / "bin"
        programs.mkdir(parents=True)
        for name in AWAY:
            program = programs / name
            program.write_text(
                '#!/bin/sh\nexec "%s" -IS "%s" %s "%s" "$@"\n' % (sys.executable, _PROGRAM, name, folder)
            )
            program.chmod(0o755)
        self._write()

    @property
    def environ(self) -> dict[str, str]:
        return {"PATH": "%s:/usr/bin:/bin" % (self.folder / "bin"), "HOME": str(self.folder), "TZ": "UTC"}

    def run(self, argv: Any, timeout: float = 10.0) -> str:
        return run_slurm(argv, environ=self.environ, timeout=timeout)

    def set(self, **values: Any) -> None:
        self._state.update(values)
        self._write()

    def mode(self, program: str, mode: str) -> None:
        """ "away", "hang", "silent", "killed", "disabled", "cut" (squeue ends in the middle of a line), "say TEXT"."""
        self._state["modes"][program] = mode
        self._write()

    def job(self, job: str, state: str = "RUNNING", exit: tuple[int, int] = (0, 0), **columns: Any) -> None:
        """What squeue knows; `columns` override what a job of a minute on two nodes would show."""
        row = {
            "jobarrayid": job,
            "state": state,
            "reason": "None",
            "exit": exit,
            "restartcnt": "0",
            "requeue": "1",
            "submittime": 1_700_000_000,
            "starttime": 1_700_000_010,
            "endtime": 1_700_000_070,
            "timelimit": "1:00:00",
            "timeused": "1:00",
            "numnodes": "2",
            "nodelist": "node[1-2]",
            "partition": "main",
            "name": "run",
            "dependency": "(null)",
            "tres-alloc": "cpu=8,mem=2G,node=2,billing=8,gres/gpu=4",
            "tres-per-node": "gres:gpu:2" if "21.08" <= self.version < "24.11" else "gpu:2",
        }
        self._state["jobs"].append({**row, **columns})
        self._write()

    def record(self, job: str, state: str, exit: str = "0:0", **fields: Any) -> None:
        """What sacct knows: a job's attempt, or ("1234.batch") one of its steps."""
        row = {
            "JobID": job,
            "State": state,
            "ExitCode": exit,
            "Reason": "None",
            "JobName": job.partition(".")[2] or "run",
            "Partition": "main",
            "NNodes": "2",
            "NodeList": "node[1-2]",
            "Submit": 1_700_000_000,
            "Start": 1_700_000_010,
            "End": 1_700_000_070,
            "ElapsedRaw": "60",
            "TimelimitRaw": "60",
            "AllocTRES": "billing=8,cpu=8,gres/gpu=4,mem=2G,node=2",
            "TotalCPU": "06:00.250",
            "CPUTimeRAW": "480",
        }
        self._state["records"].append({**row, **fields})
        self._write()

    def calls(self, program: str | None = None) -> list[list[str]]:
        """The command lines so far."""
        return [call["argv"] for call in self.calls_with_environ() if program in (None, call["argv"][0])]

    def calls_with_environ(self) -> list[dict[str, Any]]:
        try:
            return [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]
        except FileNotFoundError:
            return []

    def _write(self) -> None:
        path = self.folder / "state.json"
        path.with_suffix(".new").write_text(json.dumps(self._state))
        os.replace(path.with_suffix(".new"), path)
