"""Which tests a change affects."""

from __future__ import annotations

import pytest
from scripts.testing import changed as subject
from scripts.testing.changed import affected_tests, distances_from, imported_names, importers, module_name, naming

FILES = {
    "src/worldsize/__main__.py": "from worldsize.cli.main import run",
    "src/worldsize/cli/main.py": "from worldsize.plan import layout",
    "src/worldsize/plan/layout.py": "",
    "src/worldsize/plan/deep.py": "",
    "src/worldsize/plan/middle.py": "def f():\n    from . import deep",
    "src/worldsize/agent/alone.py": "",
    "src/worldsize/plan/named.py": 'load_module("wings.some.agent", "it")',
    "src/worldsize/wings/some/agent.py": "",
    "tests/conftest.py": "",
    "tests/driver.py": 'words = [python, "-m", "worldsize"]',
    "tests/unit/conftest.py": "",
    "tests/unit/test_layout.py": "from worldsize.plan.layout import Layout",
    "tests/unit/test_middle.py": "import worldsize.plan.middle",
    "tests/unit/test_named.py": "from worldsize.plan import named",
    "tests/unit/test_nothing.py": "",
    "tests/slurm/cluster.py": "from driver import Cli",
    "tests/slurm/test_real.py": "from slurm.cluster import Cluster",
    "tests/docs/test_docs_pages.py": "",
}


def affected(*changed: str) -> list[str]:
    tests = {path: text for path, text in FILES.items() if path.startswith("tests/")}
    distances = distances_from(changed, importers(FILES), tests)
    return sorted((path for path in distances if "/test_" in path), key=lambda path: (distances[path], path))


def test_what_imports_the_module_comes_before_what_starts_the_command_line() -> None:
    assert affected("src/worldsize/plan/layout.py") == ["tests/unit/test_layout.py", "tests/slurm/test_real.py"]


def test_imports_are_followed_inside_functions_too() -> None:
    assert affected("src/worldsize/plan/deep.py") == ["tests/unit/test_middle.py", "tests/slurm/test_real.py"]


def test_a_wings_module_is_reached_by_its_name() -> None:
    found = affected("src/worldsize/wings/some/agent.py")
    assert found == ["tests/unit/test_named.py", "tests/slurm/test_real.py"]


def test_what_only_a_process_loads_is_reached_by_the_command_line() -> None:
    assert affected("src/worldsize/agent/alone.py") == ["tests/slurm/test_real.py"]


def test_a_test_is_affected_by_itself_its_helpers_and_its_conftest() -> None:
    assert affected("tests/unit/test_nothing.py") == ["tests/unit/test_nothing.py"]
    assert affected("tests/driver.py") == ["tests/slurm/test_real.py"]
    unit = ["tests/unit/test_%s.py" % name for name in ("layout", "middle", "named", "nothing")]
    assert affected("tests/unit/conftest.py") == unit
    assert sorted(affected("tests/conftest.py")) == sorted(
        [*unit, "tests/docs/test_docs_pages.py", "tests/slurm/test_real.py"]
    )


def test_a_page_is_read_by_the_tests_of_the_documentation() -> None:
    assert affected("docs/tutorial/quickstart.md") == ["tests/docs/test_docs_pages.py"]
    assert affected("LICENSE") == []


def test_an_example_is_run_by_the_tests_that_name_it() -> None:
    tests = {"tests/frameworks/test_jax.py": 'example("jax-psum")', "tests/frameworks/test_mpi.py": ""}
    assert naming("examples/jax-psum/job.yml", tests) == ["tests/frameworks/test_jax.py"]


def test_names_of_imports() -> None:
    assert imported_names("import a.b\nfrom c import d", "x") == {"a.b", "c", "c.d"}
    assert imported_names("from . import d\nfrom .e import f", "p.q.module") == {"p.q", "p.q.d", "p.q.e", "p.q.e.f"}
    assert imported_names("from . import d", "p.q", package=True) == {"p.q", "p.q.d"}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("scripts/testing/lanes.py", "scripts.testing.lanes"),
        ("scripts/wing_table.py", "wing_table"),
        ("src/worldsize/plan/__init__.py", "worldsize.plan"),
        ("tests/slurm/cluster.py", "slurm.cluster"),
        ("tests/unit/wings/recorded.py", "recorded"),
        ("tests/azure/azureml_double/runs/node.py", "azureml_double.runs.node"),
    ],
)
def test_a_module_has_the_name_by_which_it_is_imported(path: str, name: str) -> None:
    assert module_name(path) == name


@pytest.mark.exhaustive
@pytest.mark.heavy
def test_the_projects_own_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for each of the three: to read all files takes seconds."""
    files = subject.python_files()
    graph = importers(files)
    monkeypatch.setattr(subject, "python_files", lambda: files)
    monkeypatch.setattr(subject, "importers", lambda found: graph)
    nearest = affected_tests(["src/worldsize/state/run_state.py"])
    assert "tests/unit/test_state_run_state.py" in nearest[:20]
    assert "tests/conformance/test_lifecycle.py" in nearest
    assert "tests/unit/testing/test_lanes.py" in affected_tests(["scripts/testing/lanes.py"])
    assert len(affected_tests(["tests/selection.py"])) < 60, "which tests run affects the outcome of few"
