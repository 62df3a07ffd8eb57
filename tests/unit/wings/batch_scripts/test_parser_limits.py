"""Whatever characters and numbers a batch script, a step, a world or a list of nodes holds, it is read or refused
within a few seconds of CPU time: never an endless loop, never another exception than the reader's own."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import signal
import sys
import unicodedata
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType

import pytest
from in_process import InProcess

from worldsize.agent.launchers.torchrun import root_cause
from worldsize.common.numbers import parse_digits
from worldsize.errors import JobError, UsageError
from worldsize.jobspec.job import MAX_RANKS, Job
from worldsize.jobspec.overrides import with_world
from worldsize.jobspec.reading.set_option import apply_overrides
from worldsize.jobspec.sizes import bytes_of
from worldsize.plan.array import split_element
from worldsize.plan.hostlist import MAX_NAMES, expand_hostlist
from worldsize.plan.time_limit import limit_seconds
from worldsize.wings.batch_scripts.agent.srun_options import SrunError, parse_srun_words, read_programs, task_argv
from worldsize.wings.batch_scripts.agent.step_size import MAX_STEP_TASKS, Allocation, step_size, task_node_indexes
from worldsize.wings.batch_scripts.agent.task_environment import Step, StepTask, task_environment
from worldsize.wings.batch_scripts.agent.task_streams import OutputFiles, file_name, output_target
from worldsize.wings.batch_scripts.command import job_text
from worldsize.wings.batch_scripts.script.check import check_script
from worldsize.wings.batch_scripts.script.importer import import_script
from worldsize.wings.batch_scripts.script.launches import find_launches
from worldsize.wings.batch_scripts.script.parse import BatchScript, parse_script, split_words
from worldsize.wings.batch_scripts.script.shell_values import expanded_commands
from worldsize.wings.batch_scripts.script.shell_words import parse_commands
from worldsize.wings.batch_scripts.script.size import (
    MAX_NODES,
    AllocationRequest,
    parse_allocation_request,
    parse_sbatch_array,
)
from worldsize.wings.batch_scripts.script.variables import sbatch_variables
from worldsize.wings.mpi.agent import mpirun, slurm_srun

SECONDS = 10
"""Of CPU time for one input, where an endless loop takes for ever."""

TWO = Allocation(("node0", "node1"), 4)
HUGE = (
    *("4294967296", "999999999", "1000000000000", "9" * 15, "9" * 16, "9" * 400, "9" * 5000, "0" * 5000 + "1"),
    *("²", "٣", "１", "1_000", "+1", "-1", "0x10", "1e9", "", "0", " 1", "1\xa0"),
)
OPTIONS = (
    *("nodes", "ntasks", "ntasks-per-node", "ntasks-per-gpu", "cpus-per-task", "gpus", "gpus-per-node"),
    *("gpus-per-task", "mem", "mem-per-cpu", "time", "array", "nodelist", "exclude", "signal", "gres"),
)
SHAPES = ("%s", "1-%s", "%s-%s", "a100:%s", "gpu:%s", "n[1-%s]", "n[%s]x[1-%s]", "1-2:%s", "1%%%s", "%sG", "%s:%s:%s")


@contextlib.contextmanager
def bounded(what: object) -> Iterator[None]:
    def too_long(number: int, frame: FrameType | None) -> None:
        raise AssertionError("more than %d seconds for %.200r" % (SECONDS, what))

    kept = signal.signal(signal.SIGVTALRM, too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, kept)


def attempted(what: object, *acts: Callable[[], object]) -> None:
    """Each act gives a value, or refuses in words."""
    for act in acts:
        with bounded(what), contextlib.suppress(UsageError, SrunError):
            act()


def shaped(shape: str, number: str) -> str:
    return shape % ((number,) * (shape.replace("%%", "").count("%s")))


def is_read(text: str) -> None:
    """All that the command line does with a script before anything is started."""

    def imported(script: BatchScript, size: AllocationRequest) -> str:
        return job_text(import_script(script, size, "job.slurm"), "job.slurm")

    with bounded(text):
        try:
            script = parse_script(text, "job.slurm")
            size = parse_allocation_request(script, "job.slurm")
        except JobError as error:
            assert "job.slurm" in str(error), error
            return
    attempted(
        text,
        lambda: parse_sbatch_array(script, "job.slurm"),
        lambda: sbatch_variables(script, size, ("a", "b")),
        lambda: check_script(script, size),
        lambda: imported(script, size),
    )


@functools.cache
def kinds() -> list[str]:
    """All blanks and ends of lines of Unicode, and a few characters of each category."""
    found: dict[str, list[str]] = {}
    for character in map(chr, range(sys.maxunicode + 1)):
        kind = "blank" if character.isspace() else unicodedata.category(character)
        if kind == "blank" or len(found.setdefault(kind, [])) < 3:
            found.setdefault(kind, []).append(character)
    return ["\ufeff", "\u200b", "\udcff", "\ud800", *itertools.chain.from_iterable(found.values())]


POSITIONS = (
    "#!/bin/bash%s\n#SBATCH -N 2\nsrun true\n",
    "#!%s/bin/bash\nsrun true\n",
    "#!/bin/bash\n%s#SBATCH -N 2\nsrun true\n",
    "#!/bin/bash\n#SBATCH%s-N 2\nsrun true\n",
    "#!/bin/bash\n#SBATCH --nodes=2%s\nsrun true\n",
    "#!/bin/bash\n#SBATCH --nodes=%s2 -J %s --export=A=%s\nsrun true\n",
    "#!/bin/bash\n#SBATCH -w n[1%s-2]\nsrun true\n",
    "#!/bin/bash\nsrun%strue\n",
    "#!/bin/bash\n%s\nsrun true\n",
    "#!/bin/bash\nsrun true%s\n",
    "#!/bin/bash\nexport A=%s; B=$A%s; srun python train.py $A$B ${A%s} $(%s) $((1%s+2)) `%s` <<<%s >%s\n",
    "#!/bin/bash\nsrun -n%s python %s '%s' \"%s\" \\%s #%s\ncat <<E%s\n%s\nE%s\nif [ %s ]; then%s\nfi\n",
    "#!/bin/bash\nA=(%s); A+=%s; { %s; }; (%s); %s() { :; }\ncase %s in %s) ;; esac\nmpirun -np %s python x\n",
)


@pytest.mark.heavy
@pytest.mark.parametrize("position", range(len(POSITIONS)))
def test_every_kind_of_character(position: int) -> None:
    for character in kinds():
        is_read(shaped(POSITIONS[position], character))


@pytest.mark.heavy
def test_all_of_unicode() -> None:
    """Those that are in no category with thousands of equal ones in all that is done, the others in what looks at each
    character."""
    everything = list(map(chr, range(sys.maxunicode + 1)))
    for start in range(0, len(everything), 1 << 14):
        text = "".join(everything[start : start + (1 << 14)])
        with bounded(text), contextlib.suppress(ValueError):
            parse_commands(text)
            split_words(text)
    rare = [each for each in everything if unicodedata.category(each) not in ("Lo", "Co", "Cn", "Cs")]
    for start in range(0, len(rare), 1 << 14):
        is_read("#!/bin/bash\n#SBATCH -N 2\n%s\n" % "".join(rare[start : start + (1 << 14)]))


@pytest.mark.heavy
@pytest.mark.parametrize("option", OPTIONS)
def test_numbers_of_a_script(option: str) -> None:
    for shape, number in itertools.product(SHAPES, HUGE):
        is_read("#!/bin/bash\n#SBATCH --%s=%s\nsrun python train.py\n" % (option, shaped(shape, number)))


@pytest.mark.parametrize("number", HUGE)
def test_numbers_of_launchers(number: str) -> None:
    for line in (
        *("srun -n %s python x", "srun -N %s python x", "srun --ntasks-per-node=%s python x", "mpirun -np %s python x"),
        *("torchrun --nnodes=%s --nproc-per-node=%s x.py", "srun torchrun --nnodes=2 --node-rank=%s x.py"),
        *("export SLURM_NTASKS=%s\nsrun python x", "A=$((%s * %s))\nsrun -n $A python x", "timeout %s srun python x"),
    ):
        is_read("#!/bin/bash\n#SBATCH -N 2 -n 4 --gpus-per-node=2\n%s\n" % shaped(line, number))


@pytest.mark.parametrize("name", ["nodes", "ntasks", "ntasks-per-node", "nodelist", "exclude", "relative"])
def test_numbers_of_a_step(name: str) -> None:
    for shape, number in itertools.product(("%s", "%s-%s", "node[0-%s]", "node[%s]"), HUGE):
        text = shaped(shape, number)
        for options in ({name: text}, {name: text, "ntasks": "2"}, {name: text, "nodelist": "node0"}):
            with bounded(options), contextlib.suppress(ValueError):
                found = step_size(options, {}, TWO)
                assert found.total <= MAX_STEP_TASKS
                task_node_indexes(found, "cyclic")


@pytest.mark.parametrize("name", ["SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NNODES"])
def test_numbers_of_a_steps_environment(name: str) -> None:
    for number, options in itertools.product(HUGE, ({}, {"nodelist": "node0"})):
        with bounded((name, number)), contextlib.suppress(ValueError):
            assert step_size(options, {name: number}, TWO).total <= MAX_STEP_TASKS


def step(*words: str) -> Step:
    said = parse_srun_words([*words, "python"], {})
    return Step(0, said, step_size(said.given, {}, TWO), TWO.hosts, (StepTask(3, 0, 0, "node0", 0),), 0o022)


def environment(words: tuple[str, ...]) -> None:
    try:
        made = step(*words)
    except ValueError as error:
        assert "error: " in str(error)
        return
    task_environment(made, made.tasks[0], {"CUDA_VISIBLE_DEVICES": "0,1"}, TWO, "")
    task_node_indexes(made.size, made.srun.options.get("distribution"))


@pytest.mark.parametrize("number", HUGE)
def test_numbers_of_a_tasks_environment(number: str) -> None:
    for option in ("cpus-per-task", "gpus-per-task", "gpus-per-node", "gres", "distribution", "ntasks-per-node"):
        for shape in ("%s", "a100:%s", "gpu:%s,gpu:%s", "plane=%s"):
            words = ("-n2", "--exact", "--%s=%s" % (option, shaped(shape, number)))
            attempted(words, partial(environment, words))


@pytest.mark.parametrize("number", HUGE)
def test_numbers_of_a_tasks_files(number: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written = step("-n2", "--output=%s" % number)
    with bounded(number), contextlib.suppress(OSError):
        output_target(written, written.tasks[0], "output", 1, OutputFiles(False, 0o022), False)
    with bounded(number):
        digits = number if number.isascii() and number.isdigit() else "7"
        assert len(file_name("log-%%%st" % digits, written, written.tasks[0], {})) <= len("log-") + 10


@pytest.mark.parametrize("number", HUGE)
def test_numbers_of_a_file_of_programs(number: str, tmp_path: Path) -> None:
    file = tmp_path / "programs"
    file.write_text("%s true\n0-%s echo '\n%s-%s echo %%t %%o\n* echo %%t\n" % ((number,) * 4))
    said = parse_srun_words(["-n2", "--multi-prog", str(file)], {})
    attempted(number, lambda: task_argv(said.program, read_programs(said), 3))


@pytest.mark.parametrize("number", HUGE)
def test_other_numbers(number: str) -> None:
    job = Job(command="echo", source="job.yml")

    def world(text: str) -> Job:
        changed = with_world(job, text)
        assert changed.distribution is None or changed.resources.instance_count <= MAX_RANKS
        return changed

    for shape in ("%s", "%sx%s", "2x%s", "%sx2"):
        attempted(number, partial(world, shaped(shape, number)))
    for key in ("resources.instance_count", "distribution.process_count_per_instance", "limits.timeout", "count"):
        attempted(number, partial(apply_overrides, job, ["%s=%s" % (key, number)]))
    for shape in ("%s", "n[1-%s]", "n[%s]", "n%s", "[1-%s][1-%s]", "n[0-%s],m"):
        with bounded(number), contextlib.suppress(ValueError):
            assert len(expand_hostlist(shaped(shape, number))) <= MAX_NAMES
    for shape in ("%s", "%s:%s", "1-%s", "%s-1", "%s-%s:%s"):
        with bounded(number), contextlib.suppress(ValueError):
            limit_seconds(shaped(shape, number))
    with bounded(number):
        for shape in ("%s", "%s GiB", "%s.5 TB"):
            bytes_of(shaped(shape, number))
        split_element("run_" + number)
        assert parse_digits(number) is None or str(parse_digits(number)) == number.lstrip("0") or number == "0"


@pytest.mark.parametrize("character", ["\xa0", "\u2028", "\x85", "\x0b", "\x0c", "\x1c", "\u3000"])
def test_only_a_shells_blanks_are_blanks(character: str) -> None:
    """As bash reads it: another blank is a part of a word, and ends no line."""
    (command,) = parse_commands("echo%sa b%sc" % (character, character))
    assert ["".join(part.text for part in word) for word in command.words] == [
        text % character for text in ("echo%sa", "b%sc")
    ]
    assert expanded_commands("A='x%sy'\necho $A" % character, {})[-1].words == ("echo", "x%sy" % character)
    read = parse_script("#!/bin/bash\n# %s#SBATCH -N 3\n#SBATCH -N 2\n" % character, "job.slurm")
    assert read.line("nodes") == 3 and read.value("nodes") == "2"


def test_a_no_break_space_in_an_option_is_named() -> None:
    script = parse_script("#!/bin/bash\n#SBATCH\xa0--nodes=2\n", "job.slurm")
    assert script.faults[0].line == 2 and "U+00A0 (NO-BREAK SPACE)" in (script.faults[0].hint or "")
    with pytest.raises(JobError, match=r"job\.slurm:2: --nodes=2\\xa0 is not a number of nodes"):
        parse_allocation_request(parse_script("#!/bin/bash\n#SBATCH --nodes=2\xa0\n", "job.slurm"), "job.slurm")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--nodes=999999999", r"--nodes=999999999 is more than the limit of %d" % MAX_NODES),
        ("--ntasks=%d" % 10**12, r"--ntasks=1000000000000 is more than the limit of %d" % MAX_RANKS),
        ("-N 60000 --ntasks-per-node=100", r"6000000 tasks are more than the limit of %d" % MAX_RANKS),
        ("--ntasks=900000 --ntasks-per-node=1", r"900000 nodes are more than the limit of %d" % MAX_NODES),
        ("--gpus-per-task=%d" % 10**9, r"--gpus-per-task=1000000000 is more than \d+ GPUs on a node"),
        ("-w n[1-999999999]", r"--nodelist=n\[1-999999999\] is not a list of nodes"),
        ("--array=0-%d" % 10**9, r"--array=0-1000000000 is not a list of at most 100000 indices"),
    ],
)
def test_what_is_too_much_is_named_with_its_line_and_the_bound(line: str, says: str) -> None:
    script = parse_script("#!/bin/bash\n#SBATCH %s\nsrun python x\n" % line, "job.slurm")
    with bounded(line), pytest.raises(JobError, match=r"job\.slurm:2: " + says):
        size = parse_allocation_request(script, "job.slurm")
        parse_sbatch_array(script, "job.slurm")
        raise AssertionError(size)


def test_names_as_long_as_a_script() -> None:
    """65536 names of a megabyte each take all memory."""
    for text in ("x" * 1_000_000 + "[0-65535]", "[0]" * 300_000, "[%s]" % ("1" * 18) * 100, "a" * 256):
        with bounded(text), pytest.raises(ValueError, match="a name of more than 255 characters"):
            expand_hostlist(text)


def test_a_step_on_as_many_nodes_as_there_can_be() -> None:
    """Each name was looked for among all nodes."""
    there = Allocation(tuple("node%d" % index for index in range(MAX_NAMES)), 1)
    names = "node[0-%d]" % (MAX_NAMES - 1)
    with bounded(names):
        assert step_size({"nodelist": names}, {}, there).total == MAX_NAMES
        with pytest.raises(ValueError, match="Only allocated 0 nodes"):
            step_size({"exclude": names}, {}, there)


@pytest.mark.heavy
def test_long_scripts() -> None:
    """The time grows with the length, and not with its square, nor with the number of nodes for each line."""
    with bounded("many keywords"):
        assert len(parse_commands("! " * 400_000 + "x")) == 1
    with bounded("many wrappers"):
        assert find_launches("env " * 100_000 + "python x.py", {}, TWO)[0].program == ("python", "x.py")
    is_read("#!/bin/bash\n%ssrun python x\n" % ("A=$(squeue)\nB=$(x)\n" * 2500))
    is_read("#!/bin/bash\n#SBATCH -N 65000\n%s" % ("srun python x\n" * 2000))


@pytest.mark.heavy
@pytest.mark.parametrize("verb", [["run", "--dry-run"], ["rehearse", "--dry-run"], ["import"]])
def test_the_command_line(verb: list[str], tmp_path: Path) -> None:
    cli = InProcess(str(tmp_path))
    cli.write("x.py", "")
    for position, character in itertools.product(POSITIONS, ("\xa0", "\u2028", "\x0b", "\x85", "²")):
        cli.write("job.slurm", shaped(position, character))
        with bounded((verb, position, character)):
            result = cli(*verb, "job.slurm")
        assert result.code in (0, 2) and "Traceback" not in result.err, (position, result)
    for line in ("--nodes=999999999", "--gpus-per-task=%d" % 10**9, "--ntasks=%d" % 10**12, "--array=0-%d" % 10**9):
        cli.write("job.slurm", "#!/bin/bash\n#SBATCH %s\nsrun python x.py\n" % line)
        with bounded((verb, line)):
            result = cli(*verb, "job.slurm")
        assert result.code == 2 and "job.slurm:2: --%s" % line.strip("-").partition("=")[0] in result.err, result
    if verb != ["import"]:
        cli.write("job.slurm", "#!/bin/bash\nsrun python x.py\n")
        for words in (
            ["-w", "1000000x1000000"],
            ["-w", "9" * 5000],
            ["--set", "resources.instance_count=" + "9" * 400],
        ):
            with bounded((verb, words)):
                result = cli(*verb, "job.slurm", *words)
            assert result.code == 2 and words[0] in result.err and "Traceback" not in result.err, result


def test_import_reads_what_is_no_utf_8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found here: a traceback where standard input is strict, and no end of reading /dev/zero."""
    cli = InProcess(str(tmp_path))
    for data, says in (
        (b"#!/bin/bash\n#SBATCH -J caf\xe9\nsrun x\n", ""),
        (b"#!/bin/bash\n" + b"a" * (5 << 20), "larger"),
    ):
        monkeypatch.setattr(
            sys, "stdin", io.TextIOWrapper(io.BytesIO(b"#!/bin/bash\n" + data), "utf-8", errors="strict")
        )
        result = cli("import", "-")
        assert (result.code, says in result.err) == (2 if says else 0, True), result


@pytest.mark.parametrize("digits", ["9" * 5000, "²"])
def test_ranks_that_logs_name(digits: str, tmp_path: Path) -> None:
    """What ranks print may look like a launcher's own words."""
    log = tmp_path / "log"
    for text in (
        "Root Cause (first observed failure):\n  rank : %s (local)\n  exitcode : %s\n",
        "srun: error: n1: task %s: Exited with exit code %s\n",
        "MPI_ABORT was invoked on rank %s in communicator MPI_COMM_WORLD\nwith errorcode %s.\n",
        "prterun noticed that process rank %s exited on signal %s\n  Process name: [[1,1],%s]\n  Exit code: %s\n",
    ):
        log.write_text(shaped(text, digits))
        with bounded(text):
            root_cause(str(log)), slurm_srun.first_cause(str(log)), mpirun.first_cause(str(log), 1)
    log.write_text("Root Cause\n" * 200_000)
    with bounded("many causes"):
        assert root_cause(str(log)) is None
