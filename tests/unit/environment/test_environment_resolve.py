"""From a name or a file to a spec; what makes two specs the same; environments that exist; what a plan gets of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from worldsize.compute.base import ComputeFacts
from worldsize.environment.activation import Activation, activation
from worldsize.environment.existing import ExistingEnvironment, find_existing, python_version
from worldsize.environment.resolve import resolve_environment
from worldsize.errors import NotFound, UsageError
from worldsize.jobspec.config.config import Config
from worldsize.jobspec.environment import EnvironmentSpec
from worldsize.jobspec.job import Job
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.secrets_file import plan_secret_values
from worldsize.service.environments.in_plan import unusable_reason, with_activation
from worldsize.service.environments.lookup import Environment
from worldsize.service.secrets import split_secrets

MACHINE = {"platform": "linux-64"}


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


# names


def test_a_name_of_azures_that_is_mapped_to_nothing_is_the_current_python() -> None:
    found = resolve_environment("azureml:env:4", Config())
    assert found.spec is None and "environment_map" in (found.notice or "")


def test_names_that_lead_in_a_circle_are_told() -> None:
    config = Config(environments={"a": "b", "b": "a"})
    with pytest.raises(UsageError, match="is mapped to itself"):
        resolve_environment("a", config)


def test_a_name_of_nothing_else_is_one_that_exists_or_not() -> None:
    assert resolve_environment("torch", Config()).spec == EnvironmentSpec(python="torch")
    assert resolve_environment(None, Config()).spec is None
    assert resolve_environment({"name": "x", "version": "3"}, Config()).notice


# what exists


def environment_at(path: Path, kind: str = "prefix", version: str = "3.9") -> str:
    (path / "bin").mkdir(parents=True)
    (path / "lib" / ("python" + version)).mkdir(parents=True)
    (path / "bin" / "python").write_text("")
    (path / "bin" / "python").chmod(0o755)
    if kind == "conda":
        (path / "conda-meta").mkdir()
    elif kind == "venv":
        (path / "pyvenv.cfg").write_text("")
    return str(path)


def test_where_environments_are_looked_for_by_name(tmp_path: Path) -> None:
    places = {
        "a": ".conda/envs/a", "b": "miniconda3/envs/b", "c": "work/c", "d": "elsewhere/d", "e": "opt/conda/envs/e",
        "f": "envs/f", "g": ".virtualenvs/g",
    }  # fmt: skip
    for name, place in places.items():
        environment_at(tmp_path / place, "conda" if name < "g" else "venv")
    environment_at(tmp_path / "opt" / "conda", "conda")
    write(tmp_path / ".conda" / "environments.txt", "%s\n/gone/z\n" % (tmp_path / "elsewhere" / "d"))
    environ = {
        "HOME": str(tmp_path),
        "WORKON_HOME": str(tmp_path / "work"),
        "CONDA_EXE": str(tmp_path / "opt/conda/bin/conda"),
        "CONDA_ENVS_PATH": "/nowhere:%s" % (tmp_path / "envs"),
    }
    for name, place in places.items():
        assert find_existing(name, environ).prefix == str(tmp_path / place)
    assert find_existing("base", environ).prefix == str(tmp_path / "opt" / "conda")
    own = environment_at(tmp_path / "own" / "a-1", "venv")
    assert find_existing("a", environ, {"a": own}) == ExistingEnvironment(own, "venv", (3, 9))
    with pytest.raises(NotFound, match="did you mean 'aa'"):
        find_existing("aaa", environ, {"aa": own})
    with pytest.raises(NotFound, match="there are: "):
        find_existing("qqqq", environ, {})


def test_what_a_path_holds(tmp_path: Path) -> None:
    conda = environment_at(tmp_path / "c", "conda", "3.12")
    assert find_existing(conda, {}) == ExistingEnvironment(conda, "conda", (3, 12))
    assert find_existing(conda + "/bin/python", {}) == ExistingEnvironment(conda, "conda", (3, 12))
    (tmp_path / "c" / "lib" / "python3.11").mkdir()
    assert python_version(conda) is None
    (tmp_path / "c" / "bin" / "python").unlink()
    (tmp_path / "c" / "bin" / "python3.11").write_text("")
    (tmp_path / "c" / "bin" / "python").symlink_to("python3.11")
    assert python_version(conda) == (3, 11)
    (tmp_path / "c" / "bin" / "python3.12").write_text("")
    (tmp_path / "c" / "bin" / "python3.12").chmod(0o755)
    with pytest.raises(UsageError, match=r"python: 3\.12"):
        find_existing(conda + "/bin/python3.12", {})


# plans


def test_variables_and_directories_are_completed_without_a_shell() -> None:
    spec = EnvironmentSpec(
        variables={"A": "$HOME/a", "B": "${A}:$PREFIX:$NOBODY:$(rm -rf /)"},
        path=("~/bin", "$A"),
        ld_library_path=("$B",),
    )
    found = activation(spec, ExistingEnvironment("/e", "venv", (3, 11)), {"HOME": "/home/u"})
    assert found.variables["B"] == "/home/u/a:/e:$NOBODY:$(rm -rf /)"
    assert found.path == ("/home/u/bin", "/home/u/a", "/e/bin")
    assert found.library_path == (found.variables["B"],)
    assert found.variables["VIRTUAL_ENV"] == "/e" and found.variables["CONDA_PREFIX"] is None


def test_a_plan_hides_secrets_and_nothing_else() -> None:
    """Found by review: a run with `max_tokens: 100` could not be requeued once it had ended."""
    harmless = plan(activated={"SORT_KEY": "loss"})._replace(
        argv=("x", "--max-tokens", "100"), environment={"MAX_TOKENS": "100"}
    )
    assert split_secrets(harmless) == (harmless, {})
    shown, hidden = split_secrets(plan(activated={"HUB_TOKEN": "k3y-1A", "A": "x"}, secrets=("A",)))
    assert shown.activated == {"HUB_TOKEN": "***", "A": "***"} and shown.hidden == ("activated",)
    assert hidden == {"activated": {"HUB_TOKEN": "k3y-1A", "A": "x"}}


def test_variables_with_secrets_are_no_lines_of_setup() -> None:
    """Found by review: a scheduler keeps such lines."""
    spec = EnvironmentSpec(
        variables={"A": "x-$LOGIN-y", "B": "$A", "C": "$HUB_TOKEN", "D": "$MAX_TOKENS $HOME", "E_TOKEN": "first-1A"},
        path=("$HOME/bin",),
    )
    environ = {"LOGIN": "anna", "HUB_TOKEN": "k3y-1A", "MAX_TOKENS": "100", "HOME": "/home/anna"}
    found = activation(spec, None, environ, secrets=["LOGIN"])
    assert found.closed == ("A", "B", "C", "E_TOKEN") and found.variables["B"] == "x-anna-y"
    made = with_activation(plan(), Job(setup=("true",)), ComputeFacts(), found, ("/py",))
    assert made.setup == ("export PATH=/home/anna/bin:/py:$PATH", "export D='100 /home/anna'", "true")
    assert made.activated == {name: found.variables[name] for name in found.closed} and made.secrets == found.closed
    for directories in ({"path": ("/opt/$LOGIN",)}, {"ld_library_path": ("$A/lib",)}, {"path": ("${HUB_TOKEN}/bin",)}):
        with pytest.raises(UsageError, match="contains a secret"):
            activation(spec._replace(**directories), None, environ, secrets=["LOGIN"])


def test_variables_that_a_job_names_as_secrets(tmp_path: Path) -> None:
    """Found by review: they stood in Slurm's batch script, whether the environment's own or conda's."""
    prefix = tmp_path / "env"
    (prefix / "conda-meta").mkdir(parents=True)
    state = {"env_vars": {"MYLOGIN": "anna:8f3kd7Canary", "SORT": "x"}}
    (prefix / "conda-meta" / "state").write_text(json.dumps(state))
    spec = EnvironmentSpec(variables={"OTHER": "first"})
    environ = {"MYLOGIN": "anna:8f3kd7Shell", "OTHER": "bob:k2"}
    found = activation(spec, ExistingEnvironment(str(prefix), "conda", (3, 11)), environ, secrets=["MYLOGIN", "OTHER"])
    assert found.closed == ("MYLOGIN", "OTHER")
    made = with_activation(plan(), Job(setup=("true",)), ComputeFacts(), found, ())
    assert "Canary" not in str(made.setup) and "first" not in str(made.setup) and "export SORT=x" in made.setup
    both = made._replace(environment={"MYLOGIN": "anna:8f3kd7Shell"})
    assert {"anna:8f3kd7Canary", "anna:8f3kd7Shell"} <= set(plan_secret_values(both))


@pytest.mark.parametrize(
    ("variables", "closed"),
    [
        ({"CONN": "db-$API_TOKEN", "API_TOKEN": "$API_TOKEN"}, ("CONN", "API_TOKEN")),
        ({"CONN": "db-$API_TOKEN", "API_TOKEN": ""}, ("CONN",)),
        ({"CONN": "db-$API_TOKEN", "API_TOKEN": "", "NEXT": "$CONN", "OTHER": "x$API_TOKEN"}, ("CONN", "NEXT")),
        ({"API_TOKEN": "", "CONN": "db-$API_TOKEN"}, ()),
        ({"A": "$API_TOKEN", "B": "$A", "A_": "$B"}, ("A", "B", "A_")),
        ({"HOME": "/data/$API_TOKEN", "X": "~/x", "Y": "x~"}, ("HOME", "X")),
    ],
)
def test_a_variable_refers_to_what_another_means_at_its_place(
    variables: dict[str, str], closed: tuple[str, ...]
) -> None:
    """Found by review: one that was set later hid that the shell's own had been taken."""
    found = activation(EnvironmentSpec(variables=variables), None, {"API_TOKEN": "anna8f3kd7CANARY"})
    assert found.closed == closed


def test_an_old_python_runs_ranks_and_not_agents() -> None:
    assert activation(EnvironmentSpec(), ExistingEnvironment("/e", "conda", (3, 6)), {}).python is None
    assert activation(EnvironmentSpec(), ExistingEnvironment("/e", "conda", (3, 8)), {}).python == "/e/bin/python"


def test_an_activation_as_lines_of_bash() -> None:
    found = Activation(("/a b/bin",), ("/l",), {"X": "it's", "Y": None}, ("/s.sh",), ("m/1",))
    assert found.lines() == [
        "export PATH='/a b/bin':$PATH",
        "export LD_LIBRARY_PATH=/l${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}",
        "export X='it'\"'\"'s'",
        "unset Y",
        ". /s.sh",
    ]


def plan(**fields: Any) -> Plan:
    return Plan("r", "t", "local", 1.0, 0, node_major_layout(1, 1), ("true",), {}, **fields)


def test_without_lines_to_execute_a_plan_holds_directories_and_variables() -> None:
    found = Activation(("/e/bin",), ("/l",), {"A": "1"}, python="/e/bin/python", prefix="/e")
    made = with_activation(plan(path=("/ours",)), Job(), ComputeFacts(), found, ("/ours",))
    assert (made.path, made.library_path, made.activated, made.setup) == (("/e/bin",), ("/l",), {"A": "1"}, ())
    assert made.interpreter == "/e/bin/python"


def test_the_environment_comes_after_modules_and_the_computes_lines_and_before_the_jobs() -> None:
    found = Activation(("/e/bin",), (), {}, ("/s.sh",), ("of-env",), prefix="/e")
    facts = ComputeFacts(modules=("of-compute",), setup=("compute line",))
    job = Job(modules=("of-job",), setup=("job line",))
    made = with_activation(plan(path=("/ours",)), job, facts, found, ("/ours",))
    assert made.path == () and made.activated == {}
    assert made.setup == (
        "module load of-compute", "module load of-env", "module load of-job", "compute line",
        "export PATH=/e/bin:$PATH", ". /s.sh", "job line",
    )  # fmt: skip


def test_variables_alone_leave_the_python_as_it_is() -> None:
    made = with_activation(
        plan(path=("/ours",)), Job(), ComputeFacts(), Activation(("/tools",), (), {"A": "1"}), ("/ours",)
    )
    assert made.path == ("/tools", "/ours")


def test_nodes_that_call_it_otherwise_cannot_use_it() -> None:
    environment = Environment(EnvironmentSpec(), ExistingEnvironment("/head/share/envs/e", "conda"))
    assert unusable_reason(environment, ComputeFacts()) is None
    assert "contains its own path" in (
        unusable_reason(environment, ComputeFacts(mapped=(("/head/share", "/app"),))) or ""
    )
    assert unusable_reason(environment, ComputeFacts(mapped=(("/head/share", "/head/share"),))) is None
    assert unusable_reason(Environment(EnvironmentSpec()), ComputeFacts(mapped=(("/a", "/b"),))) is None


def test_nodes_do_not_see_this_machines_tmp() -> None:
    environment = Environment(EnvironmentSpec(), ExistingEnvironment("/tmp/e", "venv"))
    assert "local to this machine" in (unusable_reason(environment, ComputeFacts()) or "")
    assert unusable_reason(environment, ComputeFacts(shared_host=True)) is None
    packed = environment._replace(spec=EnvironmentSpec(distribute="local"))
    assert unusable_reason(packed, ComputeFacts()) is None
