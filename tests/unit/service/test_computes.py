"""Types of compute: our own, and those that other packages bring; what cannot be used is one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from other_packages import write_package

from worldsize.compute.local.compute import LocalCompute
from worldsize.compute.slurm.compute import SlurmCompute
from worldsize.errors import ConfigError, JobError, WorldsizeError
from worldsize.jobspec.config.config import Config
from worldsize.jobspec.config.load import load_config
from worldsize.service.computes import compute_of_run, open_compute

OWN = """
from worldsize.jobspec.keys.key import Key

KEYS = {"queue": Key("text", "Where.", choices=("slow", "fast"), harmless=True)}


class Own:
    def __init__(self, name, options):
        self.name, self.options = name, options


def open_compute(settings, home, environ):
    if settings.options.get("queue") == "slow":
        raise RuntimeError("no such queue")
    return Own(settings.name, settings.options)


def compute_of_run(directory, handle, name, environ):
    return Own(name, handle)
"""
LEAVING = (
    OWN
    + """

def complete_settings(values):
    raise SystemExit("no licence")
"""
)
ODD = "open_compute = compute_of_run = print\nKEYS = 5\n"
FAILING = (
    OWN
    + """

def complete_settings(values):
    return values["nothing"]
"""
)
POINTS = """\
[worldsize.computes]
own = own_compute
broken = broken_compute
partial = partial_compute
odd = odd_compute
words = words_compute
leaving = leaving_compute
failing = failing_compute
slurm = own_compute
"""
MODULES = {
    "own_compute.py": OWN,
    "broken_compute.py": "1 / 0\n",
    "partial_compute.py": "KEYS = {}\n",
    "odd_compute.py": ODD,
    "words_compute.py": "open_compute = compute_of_run = print\nKEYS = {'queue': 'text'}\n",
    "leaving_compute.py": LEAVING,
    "failing_compute.py": FAILING,
}


class Project:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.environ = {"HOME": str(root), "WORLDSIZE_SITE_CONFIG": "", "WORLDSIZE_TRUST_PROJECT": "1"}

    def config(self, *lines: str) -> Config:
        (self.root / "worldsize.toml").write_text("\n".join(["[compute.lab]", *lines]) + "\n")
        return load_config(str(self.root), self.environ)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    write_package(tmp_path / "site", "own-compute", POINTS, MODULES)
    monkeypatch.syspath_prepend(tmp_path / "site")
    (tmp_path / "project").mkdir()
    return Project(tmp_path / "project")


def test_our_own_types_come_first(project: Project) -> None:
    config = project.config('type = "slurm"', 'partition = "gpu"')
    assert isinstance(open_compute(config, "lab", project.environ), SlurmCompute)
    assert isinstance(open_compute(config, "local", project.environ), LocalCompute)
    assert isinstance(compute_of_run("/nowhere", None, "x", {}), LocalCompute)


def test_a_type_of_another_package(project: Project) -> None:
    config = project.config('type = "OWN"', 'queue = "Fast"', 'python = "env/bin/python"')
    assert (config.computes["lab"].type, config.computes["lab"].options) == ("own", {"queue": "fast"})
    assert config.computes["lab"].python == str(project.root / "env/bin/python")
    assert open_compute(config, "lab", project.environ).name == "lab"
    handle = {"type": "own", "job": 3}
    assert vars(compute_of_run("/nowhere", handle, "lab", {})) == {"name": "lab", "options": handle}


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (['type = "own"', 'qeue = "fast"'], "is not a key of a own compute\n  → did you mean 'queue'?"),
        (['type = "own"', 'queue = "x"'], "'x' is none of the values allowed"),
        (['type = "owm"'], "did you mean 'own'?"),
        (['type = "broken"'], "broken of own-compute 1 (broken_compute) cannot be loaded: ZeroDivisionError: division"),
        (['type = "partial"'], "partial of own-compute 1 (partial_compute) lacks open_compute, compute_of_run"),
        (['type = "odd"'], "KEYS of the compute type odd are no mapping"),
        (['type = "words"', 'queue = "x"'], "KEYS of the compute type words are no mapping"),
        (['type = "leaving"'], "leaving of own-compute 1 (leaving_compute) failed: SystemExit: no licence"),
        (['type = "failing"'], "failing of own-compute 1 (failing_compute) failed: KeyError: 'nothing'"),
    ],
)
def test_what_its_table_may_not_say(project: Project, lines: list[str], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        project.config(*lines)
    assert says in str(caught.value)


def test_what_its_code_raises_is_a_sentence_that_names_the_package(project: Project) -> None:
    config = project.config('type = "own"', 'queue = "slow"')
    with pytest.raises(ConfigError) as caught:
        open_compute(config, "lab", project.environ)
    assert caught.value.what == (
        "the compute type own of own-compute 1 (own_compute) failed: RuntimeError: no such queue"
    )


def test_two_packages_that_bring_one_type_are_both_named(project: Project, tmp_path: Path) -> None:
    write_package(tmp_path / "site", "other", "[worldsize.computes]\nown = other_compute\n", version="2")
    with pytest.raises(ConfigError) as caught:
        project.config('type = "own"')
    assert caught.value.what.startswith("the compute type own is brought by two packages: ")
    assert "own-compute 1 (own_compute)" in caught.value.what and "other 2 (other_compute)" in caught.value.what


def test_a_project_that_is_not_trusted_may_not_set_its_keys(project: Project) -> None:
    """Whatever the other package says of them: which key harms is not for it to decide."""
    project.environ["WORLDSIZE_TRUST_PROJECT"] = "0"
    config = project.config('type = "own"', 'queue = "fast"')
    assert "lab" not in config.computes and "does not count" in config.notices[0]
    config = project.config('type = "slurm"', 'partition = "gpu"')
    assert config.computes["lab"].options == {"partition": "gpu"}


def test_a_name_that_is_no_name_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from worldsize.entry_points import entry_point_names, load_entry_point

    write_package(
        tmp_path, "odd", "[worldsize.computes]\n../x = own_compute\na.b = own_compute\nfine = no_such_module\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert entry_point_names("worldsize.computes") == ("fine",)
    assert load_entry_point("worldsize.computes", "a.b", "the compute type") is None
    with pytest.raises(JobError, match="the thing fine of odd 1"):
        load_entry_point("worldsize.computes", "fine", "the thing", error=JobError)


@pytest.mark.parametrize(("kind", "says"), [("gone", "does not know"), ("broken", "cannot be loaded")])
def test_a_run_of_what_cannot_be_used(project: Project, kind: str, says: str) -> None:
    with pytest.raises(WorldsizeError, match=says):
        compute_of_run("/nowhere", {"type": kind}, "lab", {})
