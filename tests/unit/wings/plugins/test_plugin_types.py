"""Types of compute: our own, and those that other packages bring; what cannot be used is one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from other_packages import write_package

from worldsize.compute.local.compute import LocalCompute
from worldsize.compute.slurm.compute import SlurmCompute
from worldsize.errors import ConfigError, JobError, WorldsizeError
from worldsize.jobspec.config.config import Config
from worldsize.jobspec.config.load import load_config
from worldsize.service.computes import choose_compute, compute_of_run, open_compute

OWN = """
from worldsize.jobspec.keys.key import Key

KEYS = {"queue": Key("text", "Where.", choices=("slow", "fast"), harmless=True)}


class Own:
    capabilities = frozenset()

    def __init__(self, name, options):
        self.name, self.options = name, options

    def facts(self, job):
        raise NotImplementedError

    check = render = submit = observe = pause = cancel = end_remains = facts


def open_compute(settings, home, environ):
    if settings.options.get("queue") == "slow":
        raise RuntimeError("no such queue")
    return Own(settings.name, settings.options)


def compute_of_run(directory, handle, name, environ):
    return Own(name, handle)
"""
MODULES = {
    "own_compute.py": OWN,
    "broken_compute.py": "1 / 0\n",
    "leaving_compute.py": "raise SystemExit(3)\n",
    "odder_compute.py": "class Odd(BaseException): pass\nraise Odd('two\\nlines')\n",
    "partial_compute.py": "KEYS = {}\n",
    "constant_compute.py": "KEYS = {}\nopen_compute = compute_of_run = 5\n",
    "odd_compute.py": "open_compute = compute_of_run = print\nKEYS = 5\n",
    "keyless_compute.py": "open_compute = compute_of_run = print\nKEYS = {'queue': 5}\n",
    "failing_compute.py": OWN + "def complete_settings(values): return values['nothing']\n",
    "adding_compute.py": OWN + "def complete_settings(values): return {'nix': 5}\n",
    "hinting_compute.py": OWN + "def key_hint(key): return 5\n",
    "quitting_compute.py": OWN + "def complete_settings(values): raise SystemExit('no licence')\n",
}
NAMES = [name.partition("_")[0] for name in MODULES]
POINTS = "[worldsize.computes]\nslurm = own_compute\n" + "".join("%s = %s_compute\n" % (each, each) for each in NAMES)


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
    compute: Any = compute_of_run("/nowhere", handle, "lab", {})
    assert (compute.name, compute.options) == ("lab", handle)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (['type = "own"', 'qeue = "fast"'], "is not a key of a own compute\n  → did you mean 'queue'?"),
        (['type = "own"', 'queue = "x"'], "'x' is not one of the allowed values"),
        (['type = "owm"'], "did you mean 'own'?"),
        (["type = 5"], "expected text, found 5 (a whole number)"),
    ],
)
def test_what_its_table_may_not_say(project: Project, lines: list[str], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        project.config(*lines)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("broken", "cannot be loaded: ZeroDivisionError: division by zero"),
        ("leaving", "cannot be loaded: SystemExit: 3"),
        ("odder", "cannot be loaded: Odd: two lines"),
        ("partial", "lacks open_compute, compute_of_run"),
        ("constant", "cannot be used: open_compute, compute_of_run are not functions"),
        ("odd", "cannot be used: its KEYS are not a mapping of names to keys"),
        ("keyless", "cannot be used: its KEYS are not a mapping of names to keys"),
        ("quitting", "failed in complete_settings: SystemExit: no licence"),
        ("failing", "failed in complete_settings: KeyError: 'nothing'"),
        ("adding", "failed: complete_settings returned {'nix': 5}, which is not the fields of a ComputeSettings"),
    ],
)
def test_a_package_that_cannot_be_used_is_named_with_the_key_and_stops_no_other_compute(
    project: Project, kind: str, says: str
) -> None:
    config = project.config('type = "%s"' % kind, 'runs_dir = "runs"')
    assert isinstance(open_compute(config, "local", project.environ), LocalCompute)
    assert config.computes["lab"].runs_dir == str(project.root / "runs"), "its runs are still found"
    with pytest.raises(ConfigError) as caught:
        choose_compute(config, "lab", None)
    assert caught.value.where == "%s:2: compute.lab.type" % (project.root / "worldsize.toml")
    assert caught.value.what == "the compute type %s of own-compute 1 (%s_compute) %s" % (kind, kind, says)


def test_a_type_that_no_package_provides_stops_no_other_compute(project: Project) -> None:
    config = project.config('type = "pbspro"', 'queue = "long"', 'runs_dir = "runs"')
    assert isinstance(open_compute(config, "local", project.environ), LocalCompute)
    assert config.computes["lab"].runs_dir == str(project.root / "runs"), "its runs are still found"
    with pytest.raises(ConfigError) as caught:
        choose_compute(config, "lab", None)
    assert caught.value.where == "%s:2: compute.lab.type" % (project.root / "worldsize.toml")
    assert caught.value.what == "'pbspro' is not one of the types that are installed here"
    assert (caught.value.hint or "").startswith("install the package that provides it, or use one of: local, slurm, ")


def test_a_hint_that_is_none_is_a_sentence(project: Project) -> None:
    config = project.config('type = "hinting"', "nix = 5")
    with pytest.raises(ConfigError, match="failed: key_hint returned 5, which is not a text or None"):
        choose_compute(config, "lab", None)


def test_what_its_code_raises_is_a_sentence_that_names_the_package(project: Project) -> None:
    config = project.config('type = "own"', 'queue = "slow"')
    with pytest.raises(ConfigError) as caught:
        open_compute(config, "lab", project.environ)
    assert caught.value.what == (
        "the compute type own of own-compute 1 (own_compute) failed in open_compute: RuntimeError: no such queue"
    )
    assert caught.value.where == "compute.lab.type"


def test_two_packages_that_bring_one_type_are_both_named(project: Project, tmp_path: Path) -> None:
    write_package(tmp_path / "site", "other", "[worldsize.computes]\nown = other_compute\n", version="2")
    with pytest.raises(ConfigError) as caught:
        choose_compute(project.config('type = "own"'), "lab", None)
    assert caught.value.what.startswith("the compute type own is provided by two packages: ")
    assert "own-compute 1 (own_compute)" in caught.value.what and "other 2 (other_compute)" in caught.value.what


def test_a_project_that_is_not_trusted_may_not_set_its_keys(project: Project) -> None:
    """Whatever the other package says of them: which key harms is not for it to decide."""
    project.environ["WORLDSIZE_TRUST_PROJECT"] = "0"
    config = project.config('type = "own"', 'queue = "fast"')
    assert "lab" not in config.computes and "is ignored" in config.notices[0]
    config = project.config('type = "slurm"', 'partition = "gpu"')
    assert config.computes["lab"].options == {"partition": "gpu"}


def test_a_name_that_is_no_name_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from worldsize.entry_points import ExternalPart, entry_point_names

    write_package(
        tmp_path, "odd", "[worldsize.computes]\n../x = own_compute\na.b = own_compute\nfine = no_such_module\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert entry_point_names("worldsize.computes") == ("fine",)
    assert ExternalPart("worldsize.computes", "a.b", "the compute type").load() is None
    with pytest.raises(JobError, match="the thing fine of odd 1"):
        ExternalPart("worldsize.computes", "fine", "the thing", JobError).load()


@pytest.mark.parametrize(("kind", "says"), [("gone", "unknown to this release"), ("broken", "cannot be loaded")])
def test_a_run_of_what_cannot_be_used(project: Project, kind: str, says: str) -> None:
    with pytest.raises(WorldsizeError, match=says):
        compute_of_run("/nowhere", {"type": kind}, "lab", {})
