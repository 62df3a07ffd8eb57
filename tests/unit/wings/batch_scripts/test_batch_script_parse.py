"""A batch script's #SBATCH lines, read as sbatch reads them, and what they ask for in numbers."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_strategies import fuzz

from worldsize.errors import JobError
from worldsize.jobspec.batch_script import looks_like_batch_script
from worldsize.jobspec.dump import dump_job
from worldsize.jobspec.reading.job_file import parse_job
from worldsize.wings.batch_scripts.agent.option_tables import read_options, sbatch_table, srun_table
from worldsize.wings.batch_scripts.script.job import load_script
from worldsize.wings.batch_scripts.script.parse import BatchScript, parse_script, split_words
from worldsize.wings.batch_scripts.script.size import AllocationRequest, parse_allocation_request, parse_sbatch_array
from worldsize.wings.batch_scripts.script.variables import sbatch_variables


def script(*lines: str, body: str = "srun python train.py") -> BatchScript:
    return parse_script("\n".join(["#!/bin/bash", *("#SBATCH " + line for line in lines), body, ""]), "job.slurm")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("-N 2", [("nodes", "2")]),
        ("-N2", [("nodes", "2")]),
        ("--nodes=2", [("nodes", "2")]),
        ("--nodes 2", [("nodes", "2")]),
        ("--ntasks-per-n=4", [("ntasks-per-node", "4")]),
        ("--tasks-per-node=4", [("ntasks-per-node", "4")]),
        ("--gres=gpu:4", [("gres", "gpu:4")]),
        ("--gpus-per-node=a100:4 -c8", [("gpus-per-node", "a100:4"), ("cpus-per-task", "8")]),
        ("-t 1-00:00:00", [("time", "1-00:00:00")]),
        ("-J name -p gpu -A acc", [("job-name", "name"), ("partition", "gpu"), ("account", "acc")]),
        ("-J 'a name'  # a comment", [("job-name", "a name")]),
        ('--comment="two words" --mem=4G', [("comment", "two words"), ("mem", "4G")]),
        ("--job-name=a#b", [("job-name", "a")]),
        ("--job-name=a\\#b", [("job-name", "a#b")]),
        ("--exclusive", [("exclusive", None)]),
        ("--exclusive=user", [("exclusive", "user")]),
        ("--signal=B:USR1@120", [("signal", "B:USR1@120")]),
        ("-o logs/%x-%j.out -e logs/%j.err", [("output", "logs/%x-%j.out"), ("error", "logs/%j.err")]),
        ("--array=1-10%2", [("array", "1-10%2")]),
        ("-HsQ", [("hold", None), ("oversubscribe", None), ("quiet", None)]),
        ("--requeue", [("requeue", None)]),
    ],
)
def test_spellings(line: str, found: list[tuple[str, str | None]]) -> None:
    read = script(line)
    assert [(option.name, option.value) for option in read.options] == found
    assert not read.faults


def test_the_last_of_two_counts_and_lines_are_known() -> None:
    read = script("-N 2", "--nodes=3", "-n 6")
    assert (read.value("nodes"), read.line("nodes"), read.line("ntasks")) == ("3", 3, 4)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("-9", ("-9 is not an option", "")),
        ("--No=2", ("--No=2 is not an option", "")),
        ("--nodes", ("has no value", "")),
        ("--requeue=yes", ("takes no value", "")),
        ("nodes=2", ("is not an option: nodes=2", "--")),
        ("--job-name='open", ("no closing '", "")),
        ("hetjob", ("heterogeneous", "")),
    ],
)
def test_what_sbatch_refuses_is_refused_with_its_line(tmp_path, line: str, words: tuple[str, str]) -> None:
    path = tmp_path / "job.slurm"
    path.write_text("#!/bin/bash\n\n#SBATCH %s\necho\n" % line)
    with pytest.raises(JobError) as error:
        load_script(str(path), str(tmp_path))
    assert "%s:3" % path in str(error.value) and words[0] in str(error.value)
    assert words[1] in (error.value.hint or "")


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("--nodez=2", [("nodez", "2")]),
        ("--singularity-container image.sif -N 2", [("singularity-container", "image.sif"), ("nodes", "2")]),
        ("-N 2 --x11-forward --use_pty=yes", [("nodes", "2"), ("x11-forward", None), ("use_pty", "yes")]),
        ("--one a --two b", [("one", "a"), ("two", "b")]),
        ("--tim", [("tim", None)]),
    ],
)
def test_options_of_plug_ins_are_kept(line: str, options: list[tuple[str, str | None]]) -> None:
    read = parse_script("#!/bin/bash\n#SBATCH %s\necho\n" % line, "job.slurm")
    assert sorted((option.name, option.value) for option in read.options) == sorted(options)
    assert read.faults == () and {option.name for option in read.foreign} == {name for name, _ in options} - {"nodes"}


def test_all_faults_at_once(tmp_path) -> None:
    path = tmp_path / "job.slurm"
    path.write_text("#!/bin/bash\n#SBATCH --requeue=2\n#SBATCH -t\necho\n")
    with pytest.raises(JobError, match=r"(?s)2 problems.*:2:.*:3:"):
        load_script(str(path), str(tmp_path))


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("#!/bin/bash\necho hi\n#SBATCH -N 2\n", 3, "after the first command (line 2), so Slurm ignores it"),
        ("#!/bin/bash\n # SBATCH -N 2\n", 2, "a comment, not an option"),
        ("#!/bin/bash\n#sbatch --nodes=2\n", 2, "a comment, not an option"),
    ],
)
def test_lines_that_do_nothing_are_remarked(text: str, line: int, words: str) -> None:
    (remark,) = parse_script(text, "job.slurm").remarks
    assert remark.line == line and words in remark.what


@pytest.mark.parametrize("line", ["##SBATCH -N 2", "# SBATCH options follow", "# batch size 32", "#SBATCH"])
def test_ordinary_comments_are_left_alone(line: str) -> None:
    read = parse_script("#!/bin/bash\n%s\necho\n" % line, "job.slurm")
    assert (read.options, read.remarks, read.faults) == ((), (), ())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("echo hi\n", "first line"),
        ("#!/bin/bash\r\necho\r\n", "DOS line ends"),
        ("#!/bin/sh\n\0", "NUL"),
        ("#!\n", "no int"),
    ],
)
def test_what_is_no_batch_script(text: str, words: str) -> None:
    with pytest.raises(JobError, match=words):
        parse_script(text, "job.slurm")


@pytest.mark.parametrize(
    ("name", "head", "is_one"),
    [
        ("a.slurm", "echo", True),
        ("a.sbatch", "", True),
        ("a.sh", "#!/bin/bash\n#SBATCH -N2\n", True),
        ("a.sh", "#!/bin/bash\necho\n", False),
        ("a", "#!/usr/bin/env bash\n\n#SBATCH -N2\n", True),
        ("a.txt", "see #SBATCH\n", False),
    ],
)
def test_which_files_are_taken_for_one(name: str, head: str, is_one: bool) -> None:
    assert looks_like_batch_script(name, head) == is_one


@pytest.mark.parametrize(
    ("lines", "tasks", "gpus", "cpus"),
    [
        ([], (1,), None, 1),
        (["-N2"], (1, 1), None, 1),
        (["-N2 --ntasks-per-node=4 -c 3"], (4, 4), None, 12),
        (["-n 4"], (4,), None, 4),
        (["-N2 -n3"], (2, 1), None, 2),
        (["-n 8 --ntasks-per-node=4"], (4, 4), None, 4),
        (["-N 4 -n 2"], (1, 1), None, 1),
        (["-N 2-4"], (1, 1), None, 1),
        (["-N 1k-2k"], (1,) * 1024, None, 1),
        (["-N 2K"], (1,) * 2048, None, 1),
        (["-w n[1-3]"], (1, 1, 1), None, 1),
        (["-N2 --gres=gpu:a100:4,shard:2"], (1, 1), 4, 1),
        (["-N2 --gpus=8"], (1, 1), 4, 1),
        (["-N2 --ntasks-per-node=2 --gpus-per-task=1"], (2, 2), 2, 2),
        (["-N2 --gpus-per-node=4 --ntasks-per-gpu=1"], (4, 4), 4, 4),
    ],
)
def test_sizes(lines: list[str], tasks: tuple[int, ...], gpus: int | None, cpus: int) -> None:
    found = parse_allocation_request(script(*lines), "job.slurm")
    assert (found.tasks, found.gpus, found.cpus) == (tasks, gpus, cpus)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1800), ("1:30", 90), ("2:00:00", 7200), ("1-12", 129600), ("1-12:30", 131400), ("0-0:0:10", 10),
        ("UNLIMITED", None), ("0", None), ("9999-00:00:00", 863913600),
    ],
)  # fmt: skip
def test_time_limits(text: str, seconds: float | None) -> None:
    assert parse_allocation_request(script("-t " + text), "job.slurm").seconds == seconds


@pytest.mark.parametrize(
    ("text", "indices", "at_once"),
    [("0-3", (0, 1, 2, 3), None), ("1,5,3", (1, 3, 5), None), ("0-9:3,12%2", (0, 3, 6, 9, 12), 2), ("7", (7,), None)],
)
def test_arrays(text: str, indices: tuple[int, ...], at_once: int | None) -> None:
    array = parse_sbatch_array(script("-a " + text), "job.slurm")
    assert array is not None and (array.indices, array.at_once) == (indices, at_once)


@pytest.mark.parametrize(
    "line", ["-N two", "-n 0", "-t soon", "--array=3-1", "--array=a", "--array=1-3%0", "--gpus=many", "-w n[1"]
)
def test_values_that_are_none_are_named_with_their_line(line: str) -> None:
    with pytest.raises(JobError, match=r"job\.slurm:2"):
        read = script(line)
        parse_allocation_request(read, "job.slurm")
        parse_sbatch_array(read, "job.slurm")


def refused(line: str, option: str) -> None:
    """With the option, its line, and little memory."""
    tracemalloc.start()
    try:
        read = script(line)
        with pytest.raises(JobError, match=r"job\.slurm:2: --%s=" % option):
            parse_allocation_request(read, "job.slurm")
            parse_sbatch_array(read, "job.slurm")
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "indices",
    [
        *("0-3000000", "1-100001", "0-3000000:2,5", "0-49999," * 2 + "0-49999"),
        *("9" * 5000, "1-" + "9" * 5000, "1-2:" + "9" * 5000, "1%" + "9" * 5000, "\u0661", "1%\xb2"),
    ],
)
def test_an_array_without_an_end(indices: str) -> None:
    """Found by review: all of its indices were in memory before they were too many; a long number was a traceback."""
    refused("--array=" + indices, "array")


def test_an_array_as_long_as_can_be() -> None:
    for indices in ("0-99999", "1-999990:10,7%50"):
        array = parse_sbatch_array(script("--array=" + indices), "job.slurm")
        assert array is not None and len(set(array.indices)) == len(array.indices) == 100_000
    assert parse_sbatch_array(script("--array=0-99999"), "job.slurm") == (tuple(range(100_000)), None)


@pytest.mark.parametrize("number", ["9" * 12, "9" * 5000, "\xb2"])
@pytest.mark.parametrize(
    "option",
    [
        *("nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "ntasks-per-gpu"),
        *("gpus", "gpus-per-node", "gpus-per-task", "time"),
    ],
)
def test_numbers_that_nobody_means(option: str, number: str) -> None:
    """Found by review: the numbers of so many GPUs were written one by one, for ever; a long number was a traceback."""
    refused("--%s=%s" % (option, number), option)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("lines", "option"),
    [
        (["--gres=gpu:%s" % ("9" * 12)], "gres"),
        (["--gres=gpu:9000,gpu:a100:9000"], "gres"),
        (["--gpus=9999999"], "gpus"),
        (["--gpus-per-task=9000 -n 9000"], "gpus-per-task"),
        (["--mem=%sG" % ("9" * 400)], "mem"),
        (["--mem-per-cpu=%s" % ("9" * 5000)], "mem-per-cpu"),
        (["-w n[0-65535]" + "[0-65535]" * 40], "nodelist"),
    ],
)
def test_numbers_that_make_too_many(lines: list[str], option: str) -> None:
    """Found by review, as those before: of several numbers what they make together counts."""
    refused(" ".join(lines), option)


def test_memory_and_gpus_of_people() -> None:
    read = script("-N2 --gpus-per-node=a100:8 --mem=1.5T --mem-per-cpu=4000")
    found = sbatch_variables(read, parse_allocation_request(read, "job.slurm"), ("a", "b"))
    assert (found["SLURM_JOB_GPUS"], found["SLURM_MEM_PER_CPU"]) == ("0,1,2,3,4,5,6,7", "4000")
    assert "SLURM_MEM_PER_NODE" not in found
    read = script("-N2 --gpus=20000 -N 10000 --mem=4G")
    assert parse_allocation_request(read, "job.slurm").gpus == 2
    assert sbatch_variables(read, parse_allocation_request(read, "job.slurm"), ("a",))["SLURM_MEM_PER_NODE"] == "4096"


@pytest.mark.parametrize("size", ["\xb2", "9" * 400 + "G", "9" * 5000])
def test_memory_that_is_no_number_is_no_variable(size: str) -> None:
    """Found by review: a traceback."""
    found = sbatch_variables(script("--mem=" + size), AllocationRequest((1,)), ("a",))
    assert "SLURM_MEM_PER_NODE" not in found


def test_as_a_job(tmp_path) -> None:
    path = tmp_path / "train.slurm"
    path.write_text(
        "#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=2 --array=1-3%2 --export=ALL,A=1\n#SBATCH -D src\nsrun x\n"
    )
    loaded = load_script(str(path), "/project")
    job = loaded.job
    assert (job.resources.instance_count, job.count, job.at_once, job.code) == (2, 3, 2, "/project/src")
    assert (job.display_name, job.environment_variables) == ("train.slurm", {"A": "1"})
    assert loaded.where("resources.instance_count").endswith("train.slurm:2")
    again = parse_job(dump_job(job), "job.yml").job
    assert again == job._replace(source="job.yml", batch_source="job.yml: batch_script")


@fuzz
@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        read = parse_script("#!/bin/bash\n#SBATCH " + text, "job.slurm")
        parse_allocation_request(read, "job.slurm")
        parse_sbatch_array(read, "job.slurm")
    except JobError:
        pass


@fuzz
@given(st.lists(st.text(max_size=8), max_size=5))
def test_words_quoted_are_the_words(words: list[str]) -> None:
    quoted = " ".join('"%s"' % word.replace("\\", "\\\\").replace('"', '\\"') for word in words)
    assert split_words(quoted) == words


def test_srun_and_sbatch_differ() -> None:
    assert read_options(["-W", "5", "x"], srun_table()).rest == 2
    assert read_options(["-W", "5", "x"], sbatch_table()).rest == 1
    assert read_options(["-lK0", "-u", "python", "-u"], srun_table()).rest == 2
