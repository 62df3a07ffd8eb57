"""What a job says of Slurm, as sbatch's options."""

from __future__ import annotations

from typing import Any

import pytest

from worldsize.compute.slurm.options import gpus_per_node, merge_options, sbatch_options, signal_of
from worldsize.errors import JobError
from worldsize.jobspec.job import Job
from worldsize.plan.plan import Plan, node_major_layout


def plan(nodes: int = 2, processes: int = 4, **changes: Any) -> Plan:
    return Plan("RUN", "train", "lab", 0.0, 0, node_major_layout(nodes, processes), ("true",), {})._replace(**changes)


LAYOUT = {"job-name": "RUN", "nodes": "2", "ntasks-per-node": "4"}


def test_what_nobody_said_stays_unsaid() -> None:
    assert dict(sbatch_options({}, plan())) == LAYOUT


def test_one_number_changes_the_layout() -> None:
    assert dict(sbatch_options({}, plan(1, 8)))["nodes"] == "1"
    assert dict(sbatch_options({}, plan(2, 8))) == {**LAYOUT, "ntasks-per-node": "8"}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"partition": "gpu"}, {"partition": "gpu"}),
        ({"partition": ("gpu", "big")}, {"partition": "gpu,big"}),
        ({"account": "a", "qos": "q", "reservation": "r"}, {"account": "a", "qos": "q", "reservation": "r"}),
        ({"constraint": "a100&nvlink"}, {"constraint": "a100&nvlink"}),
        ({"nodelist": ("n1", "n2"), "exclude": "n[3-4]"}, {"nodelist": "n1,n2", "exclude": "n[3-4]"}),
        ({"gpus_per_node": "a100:4"}, {"gpus-per-node": "a100:4"}),
        ({"gpus_per_node": "0"}, {}),
        ({"cpus_per_rank": 3}, {"cpus-per-task": "3"}),
        ({"mem": "0"}, {"mem": "0"}),
        ({"time": "1-12"}, {"time": "1-12"}),
        ({"exclusive": "true"}, {"exclusive": None}),
        ({"exclusive": "user"}, {"exclusive": "user"}),
        ({"exclusive": "false"}, {}),
        ({"requeue": True}, {"requeue": None}),
        ({"requeue": False}, {"no-requeue": None}),
        ({"dependency": "afterok:7"}, {"dependency": "afterok:7"}),
        ({"signal": "120"}, {"signal": "TERM@120"}),
        ({"signal": "SIGUSR1@90"}, {"signal": "USR1@90"}),
        ({"sbatch_options": {"mail-type": "END", "spread-job": ""}}, {"mail-type": "END", "spread-job": None}),
        ({"sbatch_options": {"mail_user": "me@x.org"}}, {"mail-user": "me@x.org"}),
    ],
)
def test_each_key(asked: dict[str, Any], expected: dict[str, str | None]) -> None:
    assert dict(sbatch_options(asked, plan())) == {**LAYOUT, **expected}


def test_the_limit_of_the_job_becomes_slurms_in_whole_minutes_with_room_for_the_end() -> None:
    assert dict(sbatch_options({}, plan(timeout=90.0, grace=10.0)))["time"] == "3"
    assert dict(sbatch_options({"time": "2:00:00"}, plan(timeout=90.0)))["time"] == "2:00:00"


def test_an_array_has_the_name_of_its_run() -> None:
    from worldsize.plan.plan import ArrayElement

    assert dict(sbatch_options({}, plan(run_id="RUN_0", array=ArrayElement(0, 9, "RUN"))))["job-name"] == "RUN"


@pytest.mark.parametrize(
    ("asked", "where", "says"),
    [
        ({"sbatch_options": {"nodes": "3"}}, "slurm.sbatch_options.nodes", "resources.instance_count"),
        ({"sbatch_options": {"--ntasks_per_node": "3"}}, "slurm.sbatch_options.--ntasks_per_node", "process_count"),
        ({"sbatch_options": {"OUTPUT": "x"}}, "slurm.sbatch_options.OUTPUT", "batch.log"),
        ({"sbatch_options": {"export": "A=1"}}, "slurm.sbatch_options.export", "environment_variables"),
        ({"sbatch_options": {"array": "1-3"}}, "slurm.sbatch_options.array", "matrix"),
        ({"sbatch_options": {"a b": "1"}}, "slurm.sbatch_options.a b", "long name"),
        ({"sbatch_options": {"comment": "a\n#SBATCH --nodes=9"}}, "slurm.sbatch_options.comment", "line break"),
        ({"signal": "soon"}, "slurm.signal", "USR1@120"),
        ({"signal": "B:USR1@60"}, "slurm.signal", "batch shell"),
        ({"gpus_per_node": "many"}, "slurm.gpus_per_node", "a100:4"),
    ],
)
def test_refused_with_the_reason(asked: dict[str, Any], where: str, says: str) -> None:
    with pytest.raises(JobError) as caught:
        sbatch_options(asked, plan())
    assert caught.value.where == where and says in str(caught.value)


def test_the_jobs_words_win_key_by_key() -> None:
    ours = {"partition": "gpu", "account": "lab", "modules": ("gcc",), "sbatch_options": {"comment": "c", "nice": "1"}}
    job = Job(command="x", slurm={"partition": "short", "sbatch_options": {"nice": "5"}})
    assert merge_options(ours, job, 4) == {
        "partition": "short",
        "account": "lab",
        "gpus_per_node": "4",
        "sbatch_options": {"comment": "c", "nice": "5"},
    }
    assert merge_options({}, Job(command="x", slurm={"gpus_per_node": "0"}), 4) == {"gpus_per_node": "0"}


def test_numbers_of_gpus_and_signals() -> None:
    assert [gpus_per_node(asked) for asked in ({}, {"gpus_per_node": "4"}, {"gpus_per_node": "a:b:2"})] == [None, 4, 2]
    assert signal_of("R:USR2@5") == ("R:USR2", 5)
