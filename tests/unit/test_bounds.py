"""Whatever characters and numbers a batch script, a step, a world or a list of nodes holds, it is read or refused
within a few seconds of CPU time: never an endless loop, never another exception than the reader's own."""

from __future__ import annotations

import contextlib
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

from worldsize.agent.multiprog import read_programs
from worldsize.agent.stepenv import Step, Task, task_environment
from worldsize.agent.stepoptions import Refused, read_words
from worldsize.agent.stepoutput import Files, file_name, target
from worldsize.cli.importing import job_text
from worldsize.errors import JobError, UsageError
from worldsize.plan.array import split_element
from worldsize.plan.nodelist import LIMIT, expand
from worldsize.plan.numbers import whole
from worldsize.plan.slurmtime import limit_seconds
from worldsize.plan.stepsize import MOST_TASKS, Allocation, places, step_size
from worldsize.spec.batchcheck import check_script
from worldsize.spec.batchimport import import_script
from worldsize.spec.batchjob import load_script
from worldsize.spec.batchscript import BatchScript, parse_script
from worldsize.spec.batchsize import Asked, array_of, asked
from worldsize.spec.batchvariables import sbatch_variables
from worldsize.spec.job import MAX_RANKS, Job
from worldsize.spec.overrides import apply_overrides, with_world
from worldsize.spec.sizes import bytes_of

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
        with bounded(what), contextlib.suppress(UsageError, Refused):
            act()


def shaped(shape: str, number: str) -> str:
    return shape % ((number,) * (shape.replace("%%", "").count("%s")))


def is_read(text: str) -> None:
    """All that the command line does with a script before anything is started."""

    def imported(script: BatchScript, size: Asked) -> str:
        return job_text(import_script(script, size, "job.slurm"), "job.slurm")

    with bounded(text):
        try:
            script = parse_script(text, "job.slurm")
            size = asked(script, "job.slurm")
        except JobError as error:
            assert "job.slurm" in str(error), error
            return
    attempted(
        text,
        lambda: array_of(script, "job.slurm"),
        lambda: sbatch_variables(script, size, ("a", "b")),
        lambda: check_script(script, size),
        lambda: imported(script, size),
    )


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


@pytest.mark.parametrize("position", range(len(POSITIONS)))
def test_every_kind_of_character(position: int) -> None:
    for character in kinds():
        is_read(shaped(POSITIONS[position], character))


@pytest.mark.parametrize(
    "form", ["#!/bin/bash\n#SBATCH -J %s\nsrun true %s\n", "#!/bin/bash\nA=%s srun %s\n", "#!/bin/bash\n%s\n"]
)
def test_all_of_unicode(form: str) -> None:
    for start in range(0, sys.maxunicode + 1, 1 << 14):
        is_read(shaped(form, "".join(map(chr, range(start, start + (1 << 14))))))


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
                assert found.total <= MOST_TASKS
                places(found, "cyclic")


@pytest.mark.parametrize("name", ["SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NNODES"])
def test_numbers_of_a_steps_environment(name: str) -> None:
    for number, options in itertools.product(HUGE, ({}, {"nodelist": "node0"})):
        with bounded((name, number)), contextlib.suppress(ValueError):
            assert step_size(options, {name: number}, TWO).total <= MOST_TASKS


def step(*words: str) -> Step:
    said = read_words([*words, "python"], {})
    return Step(0, said, step_size(said.said, {}, TWO), TWO.hosts, (Task(3, 0, 0, "node0", 0),))


def environment(words: tuple[str, ...]) -> None:
    try:
        made = step(*words)
    except ValueError as error:
        assert "error: " in str(error)
        return
    task_environment(made, made.tasks[0], {"CUDA_VISIBLE_DEVICES": "0,1"}, TWO, "")
    places(made.size, made.asked.options.get("distribution"))


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
        target(written, written.tasks[0], "output", 1, Files(False), False)
    with bounded(number):
        digits = number if number.isascii() and number.isdigit() else "7"
        assert len(file_name("log-%%%st" % digits, written, written.tasks[0], {})) <= len("log-") + 10


@pytest.mark.parametrize("number", HUGE)
def test_numbers_of_a_file_of_programs(number: str, tmp_path: Path) -> None:
    file = tmp_path / "programs"
    file.write_text("%s true\n0-%s echo '\n%s-%s echo %%t %%o\n* echo %%t\n" % ((number,) * 4))
    said = read_words(["-n2", "--multi-prog", str(file)], {})
    attempted(number, lambda: read_programs(said).argv(Task(3, 0, 0, "node0", 0)))


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
            assert len(expand(shaped(shape, number))) <= LIMIT
    for shape in ("%s", "%s:%s", "1-%s", "%s-1", "%s-%s:%s"):
        with bounded(number), contextlib.suppress(ValueError):
            limit_seconds(shaped(shape, number))
    with bounded(number):
        for shape in ("%s", "%s GiB", "%s.5 TB"):
            bytes_of(shaped(shape, number))
        split_element("run_" + number)
        assert whole(number) is None or str(whole(number)) == number.lstrip("0") or number == "0"
