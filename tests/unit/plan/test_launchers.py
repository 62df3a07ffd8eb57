"""The facts of launchers: a module for each, what is not known, and nothing loaded but what a run needs."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import worldsize
from worldsize.agent.launchers.base import Launcher, choose_launcher, find_launcher
from worldsize.errors import PlanError
from worldsize.plan.external_launchers import launcher_source
from worldsize.plan.launchers import LAUNCHERS, external_launchers, launcher_facts
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.rank_variables import VARIABLES, has_hostfile

SOURCE = Path(worldsize.__file__).parents[1]
OF_LAUNCHERS = ("worldsize/agent/launchers/", "worldsize/plan/launchers.py", "worldsize/wings/mpi/agent/")
WORDS_OF_COMMANDS = {
    "worldsize/wings/batch_scripts/script/check.py": {"launch.by == 'srun'", "launch.by != 'srun'",
        "first.by == 'srun'", "launch.by == 'mpirun'"},
    "worldsize/wings/batch_scripts/script/launches.py": {"name == 'torchrun'", "name == 'srun'",
        "name in ('mpirun', 'mpiexec', 'orterun')", "name in ('torchrun', 'accelerate', 'deepspeed')"},
    "worldsize/wings/bench/launch/benchmark.py": {"each.launcher.name == 'mpirun'"},
    "worldsize/wings/bench/launch/launchers.py": {"launcher.name == 'deepspeed'", "launcher.name == 'srun'"},
    "worldsize/wings/checks/agent/judgement/names.py": {"asked.get('framework') in (None, 'pytorch', 'deepspeed')"},
    "worldsize/wings/checks/agent/stages/bandwidth.py": {"'mpirun' in wanted"},
    "worldsize/wings/checks/script/reading/command_line.py": {"program == 'deepspeed'", "program == 'torchrun'"},
    "worldsize/wings/checks/script/reading/program.py": {"command.starter != 'torchrun'"},
    "worldsize/wings/checks/script/rules/alone.py": {"program.command.starter in ('accelerate', 'deepspeed')",
        "program.command.starter not in ('python', 'torchrun')", "program.request.distribution == 'ray'"},
    "worldsize/wings/checks/script/rules/frameworks.py": {"command.starter != 'torchrun'",
        "request.distribution in ('mpi', 'horovod', 'ray')",
        "program.request.distribution not in ('pytorch', 'tensorflow', 'jax', 'deepspeed')"},
    "worldsize/jobspec/job.py": {"job.autotune.get('by') != 'deepspeed'"},
}  # fmt: skip
"""Comparisons with what a command, a script or a key says: a program of a launcher's name, and no plan's launcher."""

INSTALLED = [name for name, facts in LAUNCHERS.items() if (SOURCE / (facts.module.replace(".", "/") + ".py")).exists()]
"""All but those whose wing is not there."""


def plan_of(**fields: object) -> Plan:
    return Plan("run-7", "t", "lab", 1.5, 0, node_major_layout(2, 2), ("true",), {}, **fields)


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"launcher": "torchrun"}, []),
        ({"launcher": "toy"}, ["toy"]),
        ({"launcher": "mpirun", "options": {"otherwise": "toy"}}, ["toy"]),
        ({"launcher": "toy", "options": {"otherwise": "toy"}}, ["toy"]),
        ({"launcher": "toy", "options": {"launcher": "fast", "otherwise": "direct"}}, ["toy"]),
    ],
)
def test_launchers_of_other_packages_that_a_plan_may_use(fields: dict[str, object], names: list[str]) -> None:
    """Whatever else its options say is the launcher's own business."""
    assert external_launchers(plan_of(**fields)) == names


def test_one_that_no_package_brings_has_no_file() -> None:
    with pytest.raises(PlanError, match="there is no launcher 'gone'"):
        launcher_source("gone")


@pytest.mark.parametrize("name", INSTALLED)
def test_each_has_a_module_of_its_own(name: str) -> None:
    found = find_launcher(name)
    assert isinstance(found, Launcher) and found is import_module(LAUNCHERS[name].module).LAUNCHER
    assert [each for each in INSTALLED if find_launcher(each) is found] == [name]


@pytest.mark.parametrize("name", LAUNCHERS)
def test_a_title_names_a_process_of_it(name: str) -> None:
    title = launcher_facts(name).title.format(first=2, last=3, node=1, world=4)
    assert "{" not in title and ("1" in title or "2" in title)


def test_one_that_is_not_known_is_told_with_those_that_are() -> None:
    with pytest.raises(PlanError, match=r"(?s)there is no launcher 'mpiexec'.*known: direct, torchrun, mpirun"):
        launcher_facts("mpiexec")
    with pytest.raises(PlanError):
        find_launcher("mpiexec")
    with pytest.raises(PlanError):
        choose_launcher(plan_of(launcher="mpiexec"), {})


DIRECT = """
import sys
from worldsize.agent.launchers.base import find_launcher, prepare_launch
from worldsize.agent.launchers.rank_process import NodeLaunch
from worldsize.plan.plan import Plan
from worldsize.plan.rank_variables import Host, RendezvousResult
from worldsize.plan.plan import node_major_layout
from worldsize.plan.run_paths import RunPaths

plan = Plan("r", "t", "lab", 1.5, 0, node_major_layout(1, 2), ("true",), {})
given = plan, RendezvousResult("a", 1, (Host("a", 8),)), plan.nodes[0], RunPaths("/none"), {"PATH": "/bin"}, ()
launch = prepare_launch(NodeLaunch(*given))
assert len(find_launcher(plan.launcher).processes(launch)) == 2
print(*sorted(name for name in sys.modules if name.startswith("worldsize.agent.launchers.")))
"""


def test_direct_loads_no_other() -> None:
    done = subprocess.run([sys.executable, "-c", DIRECT], capture_output=True, text=True, check=True, timeout=60)
    loaded = [name.rpartition(".")[2] for name in done.stdout.split()]
    assert loaded == ["base", "direct", "rank_process"]


@pytest.mark.parametrize(
    ("framework", "launcher", "found"),
    [
        ("none", "direct", False),
        ("pytorch", "torchrun", False),
        ("none", "mpirun", True),
        ("none", "srun", True),
        ("pytorch", "deepspeed", True),
        ("mpi", "direct", True),
        ("horovod", "direct", True),
        ("deepspeed", "direct", True),
    ],
)
def test_who_finds_the_nodes_listed(framework: str, launcher: str, found: bool) -> None:
    assert has_hostfile(plan_of(framework=framework, launcher=launcher)) == found


def test_variables_that_a_launcher_sets_itself_are_of_other_launchers() -> None:
    """Else a rank would lose what its plan promises: srun's own are Slurm's."""
    taken = {
        (name, variable.convention)
        for name, facts in LAUNCHERS.items()
        for variable in VARIABLES
        if facts.own_variables and variable.name.startswith(facts.own_variables)
    }
    assert taken == {("srun", "slurm")}


def is_launcher(node: ast.AST) -> bool:
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name == "launcher"


def comparisons(tree: ast.AST) -> Iterator[str]:
    """Those with a launcher's name, those of a launcher with what is no plain text of another meaning, and tables by
    launchers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and is_launcher(node.slice):
            yield ast.unparse(node)
        if isinstance(node, ast.MatchValue):
            sides = [node.value]
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        else:
            continue
        single = [each for side in sides for each in getattr(side, "elts", [side])]
        texts = {each.value for each in single if isinstance(each, ast.Constant)}
        if texts & LAUNCHERS.keys() or (
            any(map(is_launcher, sides)) and not any(isinstance(text, str) for text in texts)
        ):
            yield ast.unparse(node)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("if plan.launcher == 'srun': pass", 1),
        ("x = 1 if 'mpirun' != launcher else 2", 1),
        ("plan.launcher in ('torchrun', 'x')", 1),
        ("plan.launcher not in NAMES", 1),
        ("PREFIXES[plan.launcher]", 1),
        ("match plan.launcher:\n    case 'direct': pass", 1),
        ("launcher = 'mpirun' if self.launcher == 'auto' else self.launcher", 0),
        ("facts(plan.launcher).relay and launcher_facts == 2", 0),
        ("Arrangement(nodes, 'direct')", 0),
    ],
)
def test_comparisons_are_found(text: str, found: int) -> None:
    assert len(list(comparisons(ast.parse(text)))) == found


@pytest.mark.heavy
def test_nothing_but_launchers_compares_their_names() -> None:
    found: dict[str, set[str]] = {}
    for path in [*SOURCE.glob("worldsize/**/*.py"), *SOURCE.glob("worldsize_hpcpack_simulator/**/*.py")]:
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith(OF_LAUNCHERS):
            for each in comparisons(ast.parse(path.read_text())):
                found.setdefault(name, set()).add(each)
    assert found == {name: words for name, words in WORDS_OF_COMMANDS.items() if (SOURCE / name).exists()}
