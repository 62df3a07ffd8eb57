"""Configuration: three files over each other, key by key, each value with its origin."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from worldsize.errors import ConfigError, NotFound
from worldsize.jobspec.config.config import ComputeSettings, Config
from worldsize.jobspec.config.load import load_config

SITE = """\
default_compute = "lab"
home = "/shared/runs"

[compute.lab]
type = "slurm"
runs_dir = "runs"
partition = "gpu"
gpus_per_node = 4
"""
USER = """\
[compute.local]
grace = 2.5
python = "~/env/bin/python"

[compute.lab]
partition = "short"
account = "me"
"""
PROJECT = """\
default_compute = "local"

[compute.lab]
account = "project"
python = "env/bin/python"
modules = ["gcc/12"]

[compute.cloud]
type = "azureml"
workspace_name = "w"
agent = false
"""


class Place:
    """A site, a user and a project, whose configurations are written one by one."""

    def __init__(self, root: Path) -> None:
        self.site = root / "site" / "worldsize.toml"
        self.user = root / "home" / ".config" / "worldsize" / "worldsize.toml"
        self.project = root / "home" / "project" / "worldsize.toml"
        self.cwd = self.project.parent / "sub" / "deeper"
        for directory in (self.site.parent, self.user.parent, self.cwd):
            directory.mkdir(parents=True)
        self.environ = {"HOME": str(root / "home"), "WORLDSIZE_SITE_CONFIG": str(self.site)}

    def load(self, **environ: str) -> Config:
        return load_config(str(self.cwd), {**self.environ, **environ})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_without_files_there_is_local_and_a_home(place: Place) -> None:
    home = place.environ["HOME"]
    assert place.load() == Config(
        home + "/.worldsize",
        "local",
        {"local": ComputeSettings()},
        {"home": "default", "default_compute": "default", "compute.local.type": "default"},
    )


def test_project_beats_user_beats_site_key_by_key(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", place.environ["HOME"])
    for path, text in ((place.site, SITE), (place.user, USER), (place.project, PROJECT)):
        path.write_text(text)
    config = place.load()
    assert (config.home, config.default_compute) == ("/shared/runs", "local")
    assert config.computes["local"] == ComputeSettings(
        "local", "local", python=place.environ["HOME"] + "/env/bin/python", grace=2.5
    )
    assert config.computes["lab"] == ComputeSettings(
        "lab",
        "slurm",
        runs_dir=str(place.site.parent / "runs"),
        gpus_per_node=4,
        python=str(place.project.parent / "env/bin/python"),
        options={"partition": "short", "account": "project", "modules": ("gcc/12",)},
    )
    assert config.computes["cloud"].options == {"workspace_name": "w", "agent": False}
    site, user, project = str(place.site), str(place.user), str(place.project)
    assert config.origins == {
        "home": site,
        "default_compute": project,
        "compute.local.type": "default",
        "compute.local.grace": user,
        "compute.local.python": user,
        "compute.lab.type": site,
        "compute.lab.runs_dir": site,
        "compute.lab.gpus_per_node": site,
        "compute.lab.partition": user,
        "compute.lab.account": project,
        "compute.lab.python": project,
        "compute.lab.modules": project,
        "compute.cloud.type": project,
        "compute.cloud.workspace_name": project,
        "compute.cloud.agent": project,
    }


def test_the_environment_beats_the_files(place: Place) -> None:
    place.project.write_text("default_compute = 'local'\nhome = 'x'\n[compute.cloud]\ntype = 'azureml'")
    config = place.load(WORLDSIZE_HOME="runs", WORLDSIZE_COMPUTE="cloud")
    assert (config.home, config.default_compute) == (str(place.cwd / "runs"), "cloud")
    assert (config.origins["home"], config.origins["default_compute"]) == ("WORLDSIZE_HOME", "WORLDSIZE_COMPUTE")


def test_the_user_place_follows_xdg(place: Place, tmp_path: Path) -> None:
    (tmp_path / "xdg" / "worldsize").mkdir(parents=True)
    (tmp_path / "xdg" / "worldsize" / "worldsize.toml").write_text('default_compute = "x"')
    assert place.load(XDG_CONFIG_HOME=str(tmp_path / "xdg")).default_compute == "x"


def test_only_the_nearest_project_file_counts(place: Place) -> None:
    place.project.write_text("[compute.local]\ngrace = 1")
    (place.cwd / "worldsize.toml").write_text("[compute.local]\ngpus_per_node = 2")
    assert place.load().computes["local"] == ComputeSettings(gpus_per_node=2)


def test_a_bare_python_is_looked_up_later(place: Place) -> None:
    place.project.write_text('[compute.local]\npython = "python3.12"')
    assert place.load().computes["local"].python == "python3.12"


def test_computes_by_name(place: Place) -> None:
    place.project.write_text(PROJECT)
    place.site.write_text(SITE)
    config = place.load()
    assert config.compute().name == "local"
    assert config.compute("lab").type == "slurm"
    with pytest.raises(NotFound) as caught:
        config.compute("lob", "--compute")
    assert (caught.value.where, caught.value.hint, caught.value.exit_code) == ("--compute", "did you mean 'lab'?", 2)


def test_a_type_whose_wing_is_missing_takes_what_it_is_given(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation may be without a wing, and what was written for one that has it is read all the same."""
    monkeypatch.setitem(sys.modules, "worldsize.wings.azure.workspace.settings", None)
    lines = ('type = "azureml"', 'workspace = { name = "w", groups = ["a", "b"] }', "since = 2024-01-01")
    place.project.write_text("\n".join(["[compute.cloud]", *lines]))
    given = {"workspace": {"name": "w", "groups": ["a", "b"]}, "since": "2024-01-01"}
    assert place.load().compute("cloud").options == given


def test_an_unknown_default_is_said_where_it_was_set(place: Place) -> None:
    place.project.write_text('default_compute = "gone"')
    with pytest.raises(NotFound) as caught:
        place.load().compute()
    assert caught.value.where == "%s:1" % place.project


BAD = [
    ("x = 1", 1, "x: is not a key of worldsize.toml"),
    ('\ndefault_computer = "a"', 2, "did you mean 'default_compute'?"),
    ("default_compute = 3", 1, "expected text, found 3"),
    ("home = ''", 1, "home: is empty"),
    ("[compute.a]\npartition = 'x'", 1, "compute.a.type: is missing"),
    ("[compute.a]\ntype = 'slrum'", 2, "did you mean 'slurm'?"),
    ("[compute.local]\n\nrun_dir = 'x'", 3, "did you mean 'runs_dir'?"),
    ("[compute.local]\npartition = 'x'", 2, "is not a key of a local compute"),
    ("[compute.local]\ntype = 'slurm'", 2, "is always local"),
    ("[compute.b]\ntype='slurm'\ngpus_per_node = -1", 3, "is -1, must be at least 0"),
    ("[compute.local]\ngrace = '3'", 2, "grace: expected a number"),
    ("[compute.local]\nruns_dir = 3", 2, "runs_dir: expected text"),
    ("compute = 3", 1, "expected a mapping of keys"),
    ("compute.a = 3", 1, "expected a mapping of keys"),
    ("[compute.'a b']\ntype = 'slurm'", 1, "is not a compute's name"),
    ("x = [", None, "not TOML"),
    ('a = 1\nb = "\\q"', 2, "not TOML, column"),
    ("[a]\n[a]", 2, "not TOML"),
    ("x = " + "[" * 5000, None, "nested too deep"),
    ("x = " + "9" * 5000, None, "too many digits"),
]


@pytest.mark.parametrize(("text", "line", "message"), BAD)
def test_what_is_wrong_is_said_with_file_and_line(place: Place, text: str, line: int | None, message: str) -> None:
    place.project.write_text(text)
    with pytest.raises(ConfigError) as caught:
        place.load()
    assert message in str(caught.value)
    assert caught.value.where == (str(place.project) if line is None else "%s:%d" % (place.project, line))


def test_problems_of_all_files_are_told_at_once(place: Place) -> None:
    place.site.write_text("[compute.a]\ntype = 'slrum'")
    place.project.write_text("y = 1")
    with pytest.raises(ConfigError, match=r"(?s)2 problems.*worldsize.toml:1: y.*worldsize.toml:2: compute.a.type"):
        place.load()


def test_files_that_cannot_be_read(place: Place) -> None:
    place.project.write_bytes(b"x = '\xff'")
    with pytest.raises(ConfigError, match="not UTF-8"):
        place.load()
    place.project.write_bytes(b"# " + b"x" * (2 << 20))
    with pytest.raises(ConfigError, match="larger than"):
        place.load()


@pytest.mark.timing
def test_no_file_costs_next_to_nothing(place: Place) -> None:
    times = []
    for _ in range(50):
        begin = time.perf_counter()
        place.load()
        times.append(time.perf_counter() - begin)
    assert min(times) < 0.0002
