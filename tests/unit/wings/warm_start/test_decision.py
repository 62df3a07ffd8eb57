"""Whether ranks start warm, with which modules, and what is said of it: each row of "When" in warm-start.md."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest
from runtimes import APPTAINER, install

from worldsize.jobspec.config.load import load_config
from worldsize.jobspec.distributions.plain import PlainDistribution
from worldsize.jobspec.job import Job, Resources
from worldsize.plan.plan import NO_PYTHON, Plan, RankStart, Rehearsal, node_major_layout
from worldsize.service.request import SubmissionRequest
from worldsize.service.submission.plan_job import plan_job
from worldsize.service.submission.rank_packages import packages_in
from worldsize.wings.warm_start.decision import rank_start
from worldsize.wings.warm_start.judgement import gpus

TRAINS = "import os\nimport numpy\nimport torch\n"
FOUND = RankStart(("numpy", "torch"), True, "train.py imports them")


@pytest.fixture
def code(tmp_path: Path) -> Path:
    path = tmp_path / "code"
    path.mkdir()
    (path / "train.py").write_text(TRAINS)
    return path


def start(
    code: Path | None,
    command: str = "python train.py",
    preload: tuple[str, ...] = ("auto",),
    image: str | None = None,
    **keys: object,
) -> RankStart:
    plan = Plan("r", "t", "local", 1.0, 0, node_major_layout(1, 2), ("bash", "-c", command), {}, **keys)  # type: ignore[arg-type]
    return rank_start(Job(command=command, code=str(code) if code else None), plan, preload, image)


def plainly(reason: str) -> RankStart:
    return RankStart((), True, reason)


# the table


def test_auto(code: Path) -> None:
    assert start(code) == FOUND and start(code).way == "warm"


def test_a_machine_with_gpus(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is told of it at each run: only nodes that are other machines can tell no sooner."""
    monkeypatch.setattr(gpus, "_DEVICES", ("/none", "/dev/null"))
    plan = Plan("r", "t", "local", 1.0, 0, node_major_layout(1, 2), ("bash", "-c", "python train.py"), {})
    job = Job(command="python train.py", code=str(code))
    assert rank_start(job, plan, ("auto",), here=True) == plainly("this machine has GPUs")
    assert rank_start(job, plan, ("torch",), here=True).modules == ("torch",)
    assert rank_start(job, plan, ("auto",)) == FOUND


def test_named_modules(code: Path) -> None:
    (code / "train.py").unlink()
    assert start(code, preload=("torch", "own")) == RankStart(("torch", "own"), False, "they are named")
    assert start(code, preload=("torch",), gpus=4).modules == ("torch",)


def test_off(code: Path) -> None:
    assert start(code, preload=("off",)) == plainly("preload is off")
    assert start(code, preload=("off",)).way == "plain"


@pytest.mark.parametrize("preload", [("auto",), ("torch",)])
@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"launcher": "torchrun"}, "torchrun starts the ranks"),
        ({"launcher": "mpirun"}, "mpirun starts the ranks"),
        ({"launcher": "srun"}, "srun starts the ranks"),
        ({"launcher": "deepspeed"}, "deepspeed starts the ranks"),
        ({"launcher": "batch"}, "batch starts the ranks"),
        ({"terminal": True}, "the rank has a terminal"),
        ({"debugger": 0}, "a rank waits for a debugger"),
        ({"data_parallel": "split"}, "torch is changed as ranks start"),
        ({"rehearsal": Rehearsal(2)}, "torch is changed as ranks start"),
        ({"image": "pytorch.sif"}, "ranks start in a container image"),
        ({"command": "PYTHONPATH=src python train.py"}, NO_PYTHON),
        ({"command": "python train.py | tee log"}, NO_PYTHON),
        ({"command": "torchrun train.py"}, NO_PYTHON),
        ({"command": "python -c 'import torch'"}, NO_PYTHON),
        ({"command": "cd src && python train.py"}, NO_PYTHON),
    ],
)
def test_plainly(code: Path, keys: dict[str, object], reason: str, preload: tuple[str, ...]) -> None:
    assert start(code, preload=preload, **keys) == plainly(reason)  # type: ignore[arg-type]


def test_auto_on_nodes_with_gpus(code: Path) -> None:
    assert start(code, gpus=1) == plainly("the job's nodes have GPUs")
    assert start(code, gpus=0) == start(code, gpus=None) == FOUND


# the script


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python -u train.py --lr 1", "train.py"),
        ("A=1 python ./train.py $RANK", "./train.py"),
        ("python sub/fit.py", "sub/fit.py"),
        ("python -m sub.fit", "fit.py"),
        ("python -m sub", "__main__.py"),
        ("python -m train", "train.py"),
    ],
)
def test_where_the_script_is(code: Path, command: str, name: str) -> None:
    (code / "sub").mkdir()
    for each in ("fit.py", "__main__.py"):
        (code / "sub" / each).write_text(TRAINS)
    assert start(code, command) == FOUND._replace(reason=name + " imports them")


def test_a_script_outside_of_the_code(code: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text(TRAINS)
    assert start(code, "python %s" % other).modules == start(None, "python %s" % other).modules == FOUND.modules


@pytest.mark.parametrize("command", ["python none.py", "python -m none.fit", "python sub"])
def test_a_script_that_is_not_there(code: Path, command: str) -> None:
    (code / "sub").mkdir()
    assert start(code, command) == plainly("the source of %s is not in the code" % command.split()[-1])


@pytest.mark.parametrize("command", ["python train.py", "python -m train"])
def test_without_code_nothing_of_the_working_directory_is_read(
    code: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found: ranks of a job without code do not find what lies where it was submitted."""
    monkeypatch.chdir(code)
    assert start(None, command).reason.endswith("is not in the code")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (b"import torch\nx = (", "train.py cannot be read: "),
        (b"import torch\0", "train.py cannot be read: "),
        (b"import torch\nx = " + b"(" * 5000 + b")" * 5000, "train.py cannot be read: "),
        (b"import torch\nx = " + b"-" * 200000 + b"1", "train.py cannot be read: "),
        (b"import os\nprint(1)\nimport torch", "train.py imports no module at its top that is known to be safe"),
        (b"x = (", "train.py imports no module at its top that is known to be safe"),
        (b"", "train.py imports no module at its top that is known to be safe"),
    ],
)
def test_a_script_with_nothing_to_import(code: Path, source: bytes, reason: str) -> None:
    (code / "train.py").write_bytes(source)
    found = start(code)
    assert found.modules == () and found.reason.startswith(reason)


def test_a_script_that_cannot_be_read(code: Path) -> None:
    (code / "train.py").unlink()
    (code / "train.py").symlink_to("/proc/self/mem")  # a file, whose first byte nobody can read
    assert start(code).reason.startswith("train.py cannot be read: ")


@pytest.mark.parametrize(
    "source",
    [b"# -*- coding: latin-1 -*-\n# \xe9\nimport torch", b"\xef\xbb\xbfimport torch", b"import torch\r\nx = 1\r\n"],
)
def test_a_script_in_another_encoding(code: Path, source: bytes) -> None:
    (code / "train.py").write_bytes(source)
    assert start(code).modules == ("torch",)


def test_what_python_warns_of_is_not_told_here(code: Path) -> None:
    """Found: whoever submitted a script with "\\d" in a text was told of it, as if worldsize had it."""
    (code / "train.py").write_text("import torch\nx = '\\d'\ny = 1 is 1\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert start(code).modules == ("torch",)


def test_a_script_that_an_input_names(code: Path) -> None:
    """Found: the runs of an array had the modules of the first one's script."""
    plan = Plan("r", "t", "local", 1.0, 0, node_major_layout(1, 2), ("bash", "-c", "python train.py"), {})
    job = Job(command="python ${{inputs.script}}", code=str(code))
    assert rank_start(job, plan, ("auto",)) == plainly("an input names train.py")
    assert rank_start(job, plan, ("torch",)).modules == ("torch",)


def test_words_without_a_shell(code: Path) -> None:
    argv = ("python", "train.py", "a b")
    plan = Plan("r", "t", "local", 1.0, 0, node_major_layout(1, 2), argv, {})
    assert rank_start(Job(command="python train.py 'a b'", argv=argv, code=str(code)), plan, ("auto",)) == FOUND


# as a part of planning


def planned(code: Path, tmp_path: Path, configuration: str = "", **keys: object) -> Plan:
    place = tmp_path / "site.toml"
    place.write_text(configuration)
    environ = {"WORLDSIZE_HOME": str(tmp_path), "PATH": os.environ["PATH"], "WORLDSIZE_SITE_CONFIG": str(place)}
    said = {"command": "python train.py", "code": str(code), "distribution": PlainDistribution(2), **keys}
    request = SubmissionRequest(Job(**said), load_config(str(code), environ), None, environ, str(code))  # type: ignore[arg-type]
    return plan_job(request, 1.0).plan


COMPUTE = '[compute.local]\npreload = ["json"]\n'


@pytest.mark.parametrize(
    ("configuration", "preload", "modules"),
    [
        ("", (), FOUND.modules),
        ('preload = "off"', (), ()),
        ('preload = ["decimal"]', (), ("decimal",)),
        ('preload = "off"\n' + COMPUTE, (), ("json",)),
        ('preload = "off"\n' + COMPUTE, ("auto",), FOUND.modules),
        ('preload = "off"\n' + COMPUTE, ("csv",), ("csv",)),
        (COMPUTE, ("off",), ()),
    ],
)
def test_the_job_wins_over_its_compute_and_that_over_the_configuration(
    code: Path, tmp_path: Path, configuration: str, preload: tuple[str, ...], modules: tuple[str, ...]
) -> None:
    plan = planned(code, tmp_path, configuration, preload=preload)
    assert plan.start.modules == modules and plan.prepares_nodes is bool(modules or "check" in plan.options)
    assert ("warm_start" in packages_in(plan)) is bool(modules) and "warm_start" not in plan.inrank


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"distribution": None}, "each node has one rank"),
        ({"distribution": None, "resources": Resources(2)}, "each node has one rank"),
        ({"command": "./train.sh"}, NO_PYTHON),
        ({"preload": ("off",)}, "preload is off"),
    ],
)
def test_ranks_that_are_planned_to_start_plainly(
    code: Path, tmp_path: Path, keys: dict[str, object], reason: str
) -> None:
    assert planned(code, tmp_path, **keys).start == plainly(reason)


def test_a_job_with_an_image(code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found: its ranks were to start warm, and each node said later that they could not."""
    monkeypatch.setenv("PATH", install(str(tmp_path / "bin"), "apptainer", APPTAINER) + ":" + os.environ["PATH"])
    image = tmp_path / "torch.sif"
    image.write_text("")
    plan = planned(code, tmp_path, environment={"image": str(image)})
    assert plan.start == plainly("ranks start in a container image")
