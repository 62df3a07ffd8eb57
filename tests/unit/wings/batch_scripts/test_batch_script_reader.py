"""`batch_script` of a job file: the script's #SBATCH lines below the file's own keys."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import pytest

from worldsize.compute.base import ComputeFacts
from worldsize.compute.slurm.options import script_options
from worldsize.errors import JobError
from worldsize.jobspec.distributions.plain import PlainDistribution
from worldsize.jobspec.distributions.pytorch import PyTorchDistribution
from worldsize.jobspec.dump import dump_job
from worldsize.jobspec.job import Job, LoadedJob
from worldsize.jobspec.overrides import with_world
from worldsize.jobspec.reading.job_file import load_job, parse_job
from worldsize.jobspec.reading.set_option import apply_overrides
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.service.submission.make_plan import make_plan
from worldsize.wings.batch_scripts.preflight import check as check_batch
from worldsize.wings.batch_scripts.script.parse import MAX_BYTES

SCRIPT = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=3 -J name -t 5 --export=ALL,A=1,B=2\nsrun ./a\n"
PATHS = RunPaths("/runs/20260101-000000-000abc")


@pytest.fixture(autouse=True)
def place(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "job.slurm").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def loaded(keys: str = "", script: str | None = None) -> LoadedJob:
    if script is not None:
        pathlib.Path("jobs/job.slurm").write_text(script)
    return parse_job("batch_script: job.slurm\n" + keys, "jobs/job.yml")


def job(keys: str = "", script: str | None = None) -> Job:
    return loaded(keys, script).job


def local(job: Job) -> Plan:
    return make_plan(job, ComputeFacts(None, 8, shared_host=True), "local", PATHS, 1.5, ())


def sbatch(job: Job) -> dict[str, Any]:
    plan = make_plan(job, ComputeFacts(None), "slurm", PATHS, 1.5, ())
    return dict(script_options({}, None, job, plan))


def problem(keys: str) -> JobError:
    with pytest.raises(JobError) as caught:
        parse_job(keys, "jobs/job.yml")
    return caught.value


def test_the_script_says_what_the_file_does_not() -> None:
    found = job()
    assert (found.resources.instance_count, found.distribution) == (2, PlainDistribution(3))
    assert (found.display_name, found.code, found.limits.timeout) == ("name", None, None)
    assert found.environment_variables == {"A": "1", "B": "2"}
    assert found.batch_script == SCRIPT


def test_a_text_counts_as_a_file_does() -> None:
    """Found by review: it ran on one node."""
    text = "batch_script: |\n" + "".join("  %s\n" % line for line in SCRIPT.splitlines())
    found = parse_job(text, "job.yml").job
    assert [len(node.ranks) for node in local(found).nodes] == [3, 3]
    assert (sbatch(found)["nodes"], sbatch(found)["ntasks-per-node"]) == ("2", "3")


@pytest.mark.parametrize(
    ("keys", "nodes", "processes"),
    [
        ("resources: {instance_count: 1}", 1, 3),
        ("resources: {instance_count: 4}", 4, 3),
        ("resources: {instance_type: x}", 2, 3),
        ("resources:", 2, 3),
        ("distribution: {type: none, process_count_per_instance: 1}", 2, 1),
        ("distribution: {type: pytorch}", 2, 3),
        ("distribution: {type: pytorch, process_count_per_instance:}", 2, 3),
        ("resources: {instance_count: 1}\ndistribution: {type: none, process_count_per_instance: 1}", 1, 1),
    ],
)
def test_the_files_size_wins(keys: str, nodes: int, processes: int) -> None:
    found = job(keys)
    assert [len(node.ranks) for node in local(found).nodes] == [processes] * nodes
    variables = local(found).batch.variables  # type: ignore[union-attr]
    assert (variables["SLURM_NNODES"], variables["SLURM_NTASKS"]) == (str(nodes), str(nodes * processes))
    assert variables["SLURM_NTASKS_PER_NODE"] == str(processes)
    assert (sbatch(found)["nodes"], sbatch(found)["ntasks-per-node"]) == (str(nodes), str(processes))


def test_the_command_lines_words_win_over_the_files() -> None:
    found = with_world(job("resources: {instance_count: 4}"), "1x1")
    assert (sbatch(found)["nodes"], sbatch(found)["ntasks-per-node"]) == ("1", "1")
    found = apply_overrides(job("resources: {instance_count: 4}"), ["resources.instance_count=1", "slurm.time=9"])
    assert (sbatch(found)["nodes"], sbatch(found)["ntasks-per-node"], sbatch(found)["time"]) == ("1", "3", "9")


def test_a_number_of_all_tasks_gives_way_to_a_size() -> None:
    script = "#!/bin/bash\n#SBATCH -N 2 -n 3\nsrun ./a\n"
    found = sbatch(job("", script))
    assert (found["nodes"], found["ntasks"], "ntasks-per-node" in found) == ("2", "3", False)
    found = sbatch(job("resources: {instance_count: 3}"))
    assert (found["nodes"], found["ntasks-per-node"], "ntasks" in found) == ("3", "2", False)


def test_tasks_that_nobody_said_stay_unsaid() -> None:
    found = job("resources: {instance_count: 3}", "#!/bin/bash\n#SBATCH -N 2\nsrun ./a\n")
    assert "ntasks-per-node" not in sbatch(found)
    assert "SLURM_NTASKS" not in local(found).batch.variables  # type: ignore[union-attr]


def test_the_files_slurm_keys_win_on_both() -> None:
    script = "#!/bin/bash\n#SBATCH -p low -c 2 --gpus=4 --mem=1G -t 5 --no-requeue --exclusive\nsrun ./a\n"
    keys = (
        "slurm: {partition: [a, b], cpus_per_rank: 4, gpus_per_node: 2, mem: 2G, time: 7, requeue: true, "
        "exclusive: 'false', sbatch_options: {Comment: x}}"
    )
    found = job(keys, script)
    expected = {
        "partition": "a,b", "cpus-per-task": "4", "gpus-per-node": "2", "mem": "2G", "time": "7", "requeue": None,
        "comment": "x", "job-name": PATHS.run_id,
    }  # fmt: skip
    assert sbatch(found) == expected
    plan = local(found)
    assert plan.batch is not None and (plan.timeout, plan.batch.cpus) == (420, 4)
    variables = plan.batch.variables
    names = ("JOB_PARTITION", "CPUS_PER_TASK", "GPUS_ON_NODE", "GPUS_PER_NODE", "MEM_PER_NODE")
    assert [variables["SLURM_" + name] for name in names] == ["a,b", "4", "2", "2", "2048"]
    assert "SLURM_GPUS" not in variables
    messages = [(found.where, found.what) for found in check_batch(found, plan)]
    assert messages == [("jobs/job.slurm", "without effect on virtual nodes: --partition, --mem, --requeue")]


def test_the_files_time_limit_wins_on_both() -> None:
    found = job("limits: {timeout: 600}")
    assert local(found).timeout == 600
    assert sbatch(found)["time"] == "12", "with room for the end, as for every job"
    assert (local(job()).timeout, sbatch(job())["time"]) == (300, "5")


def test_variables_are_laid_over_by_name() -> None:
    assert job("environment_variables: {B: 3, C: 4}").environment_variables == {"A": "1", "B": "3", "C": "4"}


def test_what_says_nothing_is_the_default_and_not_the_scripts() -> None:
    script = "#!/bin/bash\n#SBATCH --array=1-3%2 -J name --chdir=src\nsrun ./a\n"
    found = job("", script)
    assert (found.count, found.at_once, found.display_name) == (3, 2, "name")
    assert found.code == os.path.join(os.getcwd(), "jobs", "src")
    found = job("count:\ndisplay_name:\ncode:\n", script)
    assert (found.count, found.at_once, found.display_name, found.code) == (None, None, None, None)
    found = job("count: 5", script)
    assert (found.count, found.at_once) == (5, None)
    found = job("at_once: 1", script)
    assert (found.count, found.at_once) == (3, 1)
    found = job("inputs: {x: 1}\nmatrix: {x: [1, 2]}", script)
    assert (found.count, found.matrix) == (None, {"x": (1, 2)})


@pytest.mark.parametrize(
    "changes",
    [
        {"count": None, "at_once": None},
        {"resources": Job().resources, "distribution": PlainDistribution(1)},
        {"display_name": None, "code": None},
        {"distribution": PyTorchDistribution(1)},
        {"slurm": {"time": "7"}, "environment_variables": {"A": "x", "B": ""}},
    ],
)
def test_any_job_with_a_script_reads_back_as_it_is(changes: dict[str, Any]) -> None:
    found = job("code: .", SCRIPT.replace("-J name", "-J name --array=1-3%2"))._replace(**changes)
    again = parse_job(dump_job(found), "/runs/r/job.yml").job
    assert again == found._replace(source="/runs/r/job.yml", batch_source="/runs/r/job.yml: batch_script")
    assert apply_overrides(found, []) == found


def test_places_of_what_is_wrong_in_the_script() -> None:
    with pytest.raises(JobError) as caught:
        job("", "#!/bin/bash\n#SBATCH --requeue=2\n")
    assert caught.value.where == "jobs/job.slurm:2"
    found = loaded("", "#!/bin/bash\n#SBATCH -N 2\nexport WORLD_SIZE=9\nsrun python -c 1\n#SBATCH -t 3\n")
    assert [each.where for each in check_batch(found.job, local(found.job))] == ["jobs/job.slurm:3"]
    assert [warning.partition(": ")[0] for warning in found.warnings] == ["jobs/job.slurm:5"]
    text = 'batch_script: "#!/bin/bash\\n#SBATCH -N two\\n"'
    assert problem(text).where == "jobs/job.yml: batch_script:2"


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("nosuch.slurm", "cannot read the batch script %s/jobs/nosuch.slurm: No such file or directory"),
        ("../jobs", "cannot read the batch script %s/jobs: Is a directory"),
        ("pipe", "cannot read the batch script %s/jobs/pipe: it is not a regular file"),
        ('"srun ./a\\nsrun ./b\\n"', "is not a batch script: its first line must name the interpreter"),
        ("https://example.org/job.slurm", "is an address, not a file"),
        ("[a]", "expected text, found a list"),
        ('" "', "is empty"),
    ],
)
def test_what_is_no_script(value: str, what: str) -> None:
    os.mkfifo("jobs/pipe")
    error = problem("code: .\nbatch_script: " + value)
    assert error.where == "jobs/job.yml:2"
    assert str(error).startswith("jobs/job.yml:2: batch_script: " + (what % os.getcwd() if "%" in what else what))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"echo\n", "not a batch script"),
        (b"#!/bin/bash\r\n", "DOS line ends"),
        (b"#!/bin/bash\n\0", "NUL"),
        (b"#!/bin/bash\n" + b"#" * MAX_BYTES, "larger than"),
    ],
)
def test_a_file_that_sbatch_refuses(text: bytes, what: str) -> None:
    pathlib.Path("jobs/job.slurm").write_bytes(text)
    assert problem("batch_script: job.slurm").where in ("jobs/job.slurm", "jobs/job.slurm:1")
    assert what in str(problem("batch_script: job.slurm"))


def test_other_problems_of_the_file_are_told_first() -> None:
    assert "comand" in str(problem("batch_script: nosuch\ncomand: x\ngrace: no"))
    error = str(problem("batch_script: job.slurm\nsetup: [a]\nmodules: [b]"))
    assert "setup: has no effect with batch_script" in error and "modules: has no effect" in error
    assert "cannot be combined with command" in str(problem("batch_script: job.slurm\ncommand: x"))


def test_too_many_runs_or_ranks() -> None:
    pathlib.Path("jobs/job.slurm").write_text("#!/bin/bash\n#SBATCH --array=0-20000\nsrun ./a\n")
    assert str(problem("batch_script: job.slurm")).startswith("jobs/job.slurm:2: --array: 20001 runs")
    pathlib.Path("jobs/job.slurm").write_text(SCRIPT)
    keys = "batch_script: job.slurm\nresources: {instance_count: 900000}"
    assert "2700000 ranks are more than the limit" in str(problem(keys))


def test_the_file_is_found_beside_the_job_file(place: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "jobs" / "job.yml").write_text("batch_script: job.slurm\ncode: .\n")
    monkeypatch.chdir("/")
    found = load_job(str(place / "jobs" / "job.yml")).job
    assert found.batch_script == SCRIPT and found.code == str(place / "jobs")


def test_another_script_on_the_command_line(place: pathlib.Path) -> None:
    (place / "other.slurm").write_text("#!/bin/bash\nsrun ./other\n")
    found = apply_overrides(job(), ["batch_script=other.slurm"])
    assert (found.batch_script, found.batch_source) == ("#!/bin/bash\nsrun ./other\n", "other.slurm")


def test_a_file_that_the_script_sources_and_that_is_not_there() -> None:
    """Only one that is known by its path, in a command that is executed in any case."""
    body = "source /no/such/activate\n. $SOMEWHERE/activate\nsource activate\nif true; then . /no/such/file; fi\n"
    for first, hint in (("set -u", "the script continues"), ("set -eu", "`set -e` ends the script there")):
        found = job("", "#!/bin/bash\n%s\n%s" % (first, body))
        (notice,) = check_batch(found, local(found))
        assert (notice.where, notice.hint) == ("jobs/job.slurm:3", hint)
        assert notice.what == "no such file on this machine: /no/such/activate"
