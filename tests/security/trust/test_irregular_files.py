"""Pipes, devices and holes in place of the files that are read: they are refused by name, and nobody waits for them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from driver import Cli, Result
from in_process import InProcess

TOO_LONG = 30
"""Seconds after which a command counts as one that waits for ever."""
WORDS = "not a regular file"
Place = Callable[[str], None]


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(str(tmp_path))
    yield cli
    cli.close()


class TookTooLong(BaseException):
    """No OSError, as those of files are, so that nothing takes it for one."""


class Inside(InProcess):
    """In the test's process: there are hundreds of these command lines, which only read."""

    def __call__(self, *words: str, cwd: str | None = None, timeout: float = 60, **environ: str) -> Result:
        with time_limit(timeout):
            return super().__call__(*words, cwd=cwd, **environ)


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    def end(*_: object) -> None:
        raise TookTooLong

    former = signal.signal(signal.SIGALRM, end)
    left, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left)
        signal.signal(signal.SIGALRM, former)


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Inside]:
    inside = Inside(str(tmp_path))
    yield inside
    inside.close()


def place_pipe(path: str) -> None:
    os.mkfifo(path)


def place_device(path: str) -> None:
    """A link, as anybody can make one; the device itself takes root."""
    os.symlink("/dev/zero", path)


def place_hole(path: str) -> None:
    """A terabyte that takes no space."""
    with open(path, "wb") as file:
        file.truncate(1 << 40)


KINDS = pytest.mark.parametrize("place", [place_pipe, place_device])


def ends(cli: Cli, *words: str) -> Result:
    """What a command says that does not wait."""
    result = cli(*words, timeout=TOO_LONG)
    assert "Traceback" not in result.err, result
    return result


@pytest.mark.exhaustive(
    unless=[
        "run-job.yml-place_pipe",
        "submit-job.sh-place_device",
        "run-job-place_device",
        "submit-job.yml-place_device",
    ]
)
@KINDS
@pytest.mark.parametrize("name", ["job.yml", "job.sh", "job"])
@pytest.mark.parametrize("verb", ["run", "submit"])
def test_job_file(cli: Cli, place: Place, name: str, verb: str) -> None:
    place(os.path.join(cli.project, name))
    refused = ends(cli, verb, name)
    assert refused.code == 2, refused
    if not name.endswith(".sh"):  # which is taken for a script that is to go after --
        assert name in refused.err and WORDS in refused.err
    assert not os.path.exists(cli.home)


@KINDS
def test_job_file_whose_environment_is_shown(cli: Cli, place: Place) -> None:
    place(os.path.join(cli.project, "job.yml"))
    refused = ends(cli, "env", "show", "job.yml")
    assert refused.code != 0 and "job.yml" in refused.err and WORDS in refused.err


def test_a_pipe_that_the_user_gives(cli: Cli) -> None:
    """Process substitution, and standard input: a job file of ours that no other has made."""
    start = 'exec %s -m worldsize run "$@" <(printf "command: echo from a pipe\\ncode: null\\n")' % sys.executable
    options = {"cwd": cli.project, "env": cli.environ, "capture_output": True, "timeout": TOO_LONG, "text": True}
    found = subprocess.run(["bash", "-c", start], stdin=subprocess.DEVNULL, check=False, **options)  # type: ignore[call-overload]
    assert found.returncode == 0 and "from a pipe" in found.stdout, found
    words = [sys.executable, "-m", "worldsize", "run", "/dev/stdin"]
    found = subprocess.run(words, input="command: echo from standard input\n", check=False, **options)  # type: ignore[call-overload]
    assert found.returncode == 0 and "from standard input" in found.stdout, found


@pytest.mark.exhaustive(
    unless=[
        "project/worldsize.toml-place_pipe",
        "project/.amlignore-place_device",
        ".config/worldsize/config.toml-place_device",
    ]
)
@KINDS
@pytest.mark.parametrize("name", ["project/worldsize.toml", "project/.amlignore", ".config/worldsize/config.toml"])
def test_configuration(cli: Cli, place: Place, name: str) -> None:
    """It counts as none, or is refused by name."""
    os.makedirs(os.path.join(cli.root, ".config/worldsize"))
    place(os.path.join(cli.root, name))
    found = ends(cli, "run", "--", "true")
    assert found.code == 0 or (os.path.basename(name) in found.err and WORDS in found.err), found


@pytest.mark.exhaustive(unless=["trusted.json-place_pipe", "key-place_device"])
@KINDS
@pytest.mark.parametrize("name", ["trusted.json", "key"])
def test_own_decisions(cli: Cli, place: Place, name: str) -> None:
    """They count as undecided."""
    del cli.environ["WORLDSIZE_TRUST_PROJECT"]
    cli.write("worldsize.toml", "[compute.here]\ntype = 'local'\nsetup = ['true']\n")
    os.makedirs(os.path.join(cli.root, ".config/worldsize"))
    place(os.path.join(cli.root, ".config/worldsize", name))
    ends(cli, "config", "show")
    ends(cli, "list")


@KINDS
def test_settings_of_uv_above_a_project(cli: Cli, place: Place) -> None:
    """Found by review: one that waited for a writer stopped each build."""
    cli.write("project/pyproject.toml", '[project]\nname = "demo"\nversion = "1"\n')
    place(os.path.join(cli.project, "uv.toml"))
    cli.write("job.yml", "command: 'true'\nenvironment: {file: project/pyproject.toml}\n")
    refused = ends(cli, "run", "job.yml")
    assert refused.code != 0 and "uv.toml" in refused.err and "cannot be read" in refused.err


@pytest.mark.exhaustive(unless=["place_pipe"])
@KINDS
def test_the_configuration_that_a_simulator_would_replace(cli: Cli, place: Place) -> None:
    os.mkdir(os.path.join(cli.project, "hpcpack"))
    place(os.path.join(cli.project, "hpcpack", "worldsize.toml"))
    refused = ends(cli, "simulate", "hpcpack", "--nodes", "1")
    assert refused.code != 0 and "is not the simulator's" in refused.err


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The directory of a run that has failed, to be copied."""
    cli = Cli(str(tmp_path_factory.mktemp("example")))
    yield cli.path(cli.run("-w", "1x2", "--", "python", "-c", "print('up'); 1 / 0", code=1))
    cli.close()


OF_SETTLED = [
    *("result.json", "plan.json", "record.json", "job.yml", "code.json", "batch.log", "array.json", "after.json"),
    *("attempt-0/errors/rank-00000.json", "attempt-0/logs/rank-00000.log"),
]
OF_OTHERS = [
    *("result.json", "handle.json", "preparing", "submission.txt", "attempt-0/isolation.json"),
    *("attempt-0/events/node-0000.jsonl", "attempt-0/exit/node-0000.json"),
]
NAMED = ("result.json", "job.yml", "attempt-0/logs/rank-00000.log")
"""Those without which a verb cannot tell what it is asked."""
CASES = [*((True, name) for name in OF_SETTLED), *((False, name) for name in OF_OTHERS)]
VERBS = [("status",), ("logs",), ("logs", "--rank", "0", "--raw"), ("wait",), ("list",)]


@pytest.mark.parametrize(
    ("settled", "record", "place"),
    [
        *((*case, place_pipe) for case in CASES),
        *((True, name, place_device) for name in NAMED),
        *((*case, place_hole) for case in CASES if not case[1].endswith(".log")),
    ],
)
def test_records_of_a_run(inside: Inside, example: str, settled: bool, record: str, place: Place) -> None:
    """Also where nothing has written its result yet, so that the records of its nodes are asked."""
    directory = inside.path(os.path.basename(example))
    shutil.copytree(example, directory, symlinks=True)
    if not settled:
        os.unlink(os.path.join(directory, "result.json"))
    path = os.path.join(directory, record)
    if os.path.lexists(path):
        os.unlink(path)
    place(path)
    said = "".join(ends(inside, *verb, directory).err for verb in VERBS)
    said += ends(inside, "list").err + ends(inside, "diff", directory, example).err
    if record in NAMED:
        assert os.path.basename(record) in said
        assert (WORDS in said) if place is not place_hole else ("too large" in said or "larger" in said)


def test_what_waits_for_a_pipe_in_this_process_is_ended(tmp_path: Path) -> None:
    """So that the tests above find it."""
    place_pipe(str(tmp_path / "pipe"))
    with pytest.raises(TookTooLong), time_limit(0.05):
        (tmp_path / "pipe").read_text()


@KINDS
def test_a_script_to_convert(cli: Cli, place: Place) -> None:
    """Found by review: a pipe was waited for without an end."""
    pytest.importorskip("libcst")
    place(os.path.join(cli.project, "train.py"))
    refused = ends(cli, "convert", "train.py")
    assert refused.code == 2 and "train.py" in refused.err and WORDS in refused.err, refused
