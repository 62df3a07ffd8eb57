"""`environment:` of pip packages: built once with uv, used at once the second time; existing environments."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from driver import Cli, Result
from wheels import Links

SHOW = "command: python -c 'import demo, sys; print(demo.__version__, sys.prefix)'\n"


def prefix_of(cli: Cli) -> str:
    (only,) = cli.json("env", "list")
    return str(only["prefix"])


def test_a_requirements_file_is_built_and_used(cli: Cli, links: Links) -> None:
    links.wheel("demo", "1.0", requires=("needed>=2",))
    links.wheel("needed", "2.1")
    cli.write("requirements.txt", links.requirements("demo"))
    cli.write("job.yml", SHOW + "environment: requirements.txt\n")
    first = cli.ok("run", "job.yml", "-w", "2x1")
    assert "notice: building the environment pip-" in first.err
    prefix = prefix_of(cli)
    assert cli.ok("logs").lines == ["×2: 1.0 %s" % prefix]
    second = cli.ok("run", "job.yml")
    assert second.lines == ["0:0: 1.0 %s" % prefix]
    assert "building" not in second.err


def test_the_record_names_the_environment_and_what_is_in_it(cli: Cli, links: Links) -> None:
    links.wheel("demo", "1.0")
    cli.write("requirements.txt", links.requirements("demo"))
    cli.write("job.yml", SHOW + "environment: requirements.txt\n")
    run = cli.run("job.yml")
    found = json.loads(cli.read(run, "record.json"))["env"]
    assert found["packages"] == {"demo": "1.0"}
    assert (found["prefix"], found["kind"]) == (prefix_of(cli), "venv")
    whole = json.loads(cli.read(run, "environment.json"))
    assert whole["fingerprint"] == found["fingerprint"]
    assert [(row["name"], row["version"], len(row["hashes"])) for row in whole["pip"]] == [("demo", "1.0", 1)]


def test_rerun_takes_the_same_packages_though_the_file_has_changed(cli: Cli, links: Links) -> None:
    links.wheel("demo", "1.0")
    links.wheel("demo", "2.0")
    cli.write("requirements.txt", links.requirements("demo<2"))
    cli.write("job.yml", SHOW + "environment: requirements.txt\n")
    assert cli.ok("run", "job.yml").out.startswith("0:0: 1.0 ")
    first = cli.latest()
    cli.write("requirements.txt", links.requirements("demo"))
    assert cli.ok("run", "job.yml").out.startswith("0:0: 2.0 ")
    assert cli.json("diff", first, cli.latest())["environment"]["env.packages.demo"] == ["1.0", "2.0"]
    assert cli.ok("rerun", first).out.startswith("0:0: 1.0 ")
    cli.ok("env", "remove", *(row["name"] for row in cli.json("env", "list")))
    again = cli.ok("rerun", first)
    assert "building" in again.err and again.out.startswith("0:0: 1.0 ")


def test_the_environments_variables_are_lower_than_the_jobs(cli: Cli, links: Links) -> None:
    links.wheel("demo", "1.0")
    lines = ", ".join("'%s'" % line for line in (*links.lines, "demo"))
    text = """\
command: echo $A $B $WORLD_SIZE $OURS $LD_LIBRARY_PATH; which python
environment:
  pip: [%s]
  path: tools
  ld_library_path: [$PREFIX/lib, /opt/lib]
  variables: {A: env, B: env, WORLD_SIZE: 9, OURS: $A-x}
environment_variables: {B: job}
"""
    cli.write("job.yml", text % lines)
    printed = cli.ok("run", "job.yml", LD_LIBRARY_PATH="/usr/local/lib").lines
    prefix = prefix_of(cli)
    assert printed == [
        "0:0: env job 1 env-x %s/lib:/opt/lib:/usr/local/lib" % prefix,
        "0:0: %s/bin/python" % prefix,
    ]


def test_setup_lines_find_the_environment(cli: Cli, links: Links) -> None:
    """With lines to execute first, the environment comes after the modules and before the lines."""
    links.wheel("demo", "1.0")
    cli.write("requirements.txt", links.requirements("demo"))
    cli.write("job.yml", SHOW + "environment: requirements.txt\nsetup: ['python -c \"import demo\"']\n")
    assert cli.ok("run", "job.yml").out == "0:0: 1.0 %s\n" % prefix_of(cli)


def test_a_named_environment_of_the_configuration(cli: Cli, links: Links) -> None:
    links.wheel("demo", "1.0")
    cli.write("requirements.txt", links.requirements("demo"))
    cli.write("worldsize.toml", '[environment]\nnlp = "requirements.txt"\n[environment_map]\n"AzureML-nlp-*" = "nlp"\n')
    cli.write("job.yml", SHOW + "environment: nlp\n")
    cli.write("azure.yml", SHOW + "environment: azureml:AzureML-nlp-1.13@latest\n")
    cli.write("bare.yml", SHOW + "environment: AzureML-nlp-1.13\n")
    expected = "0:0: 1.0 "
    assert cli.ok("run", "job.yml").out.startswith(expected)
    assert cli.ok("run", "azure.yml").out.startswith(expected)
    assert cli.ok("run", "bare.yml").out.startswith(expected)
    assert os.path.basename(prefix_of(cli)).startswith("nlp-")


def test_the_same_content_elsewhere_is_the_same_environment(cli: Cli, links: Links) -> None:
    links.wheel("demo", "1.0")
    for name in ("a/requirements.txt", "b/needs.txt"):
        cli.write(name, links.requirements("demo"))
        cli.write(name.partition("/")[0] + "/job.yml", SHOW + "environment: %s\n" % name.partition("/")[2])
    cli.ok("run", "a/job.yml")
    assert "building" not in cli.ok("run", "b/job.yml").err
    cli.ok("env", "build", "b/needs.txt", "--name", "other")
    assert len(cli.json("env", "list")) == 1


def test_included_files_count(cli: Cli, links: Links) -> None:
    links.wheel("demo", "1.0")
    links.wheel("demo", "1.1")
    cli.write("base.txt", links.requirements("demo==1.0"))
    cli.write("requirements.txt", "-r base.txt\n")
    cli.write("job.yml", SHOW + "environment: requirements.txt\n")
    assert cli.ok("run", "job.yml").out.startswith("0:0: 1.0 ")
    cli.write("base.txt", links.requirements("demo==1.1"))
    assert cli.ok("run", "job.yml").out.startswith("0:0: 1.1 ")


def test_files_with_comments_continued_lines_and_relative_paths(cli: Cli, links: Links, tmp_path: Path) -> None:
    """Paths are those of the file that says them, wherever uv is started; an option after a byte order mark is one."""
    links.wheel("demo", "1.0")
    links.wheel("other", "1.0")
    links.wheel("third", "1.0")
    os.rename(links.directory, os.path.join(cli.project, "wheels"))
    cli.write("needs/index.txt", "\ufeff--no-index\r\n-f \\\r\n  ../wheels # here\r\n")
    cli.write("needs/files.txt", "../wheels/other-1.0-py3-none-any.whl\n")
    cli.write(
        "requirements.txt",
        "-r needs/index.txt   # where\n-r needs/files.txt\nwheels/third-1.0-py3-none-any.whl\ndemo # it\n",
    )
    cli.write("job.yml", SHOW + "environment: requirements.txt\n")
    cli.ok("run", "job.yml")
    found = cli.json("env", "show", "job.yml")
    assert [row["name"] for row in found["pip"]] == ["demo", "other", "third"]
    assert found["options"] == ["--no-index", "-f %s/wheels" % cli.project]
    assert len(found["pip"][0]["hashes"]) == 1


def test_requirements_of_an_address_are_refused_as_such(cli: Cli) -> None:
    cli.write("requirements.txt", "-r https://example.invalid/requirements.txt\n")
    cli.write("job.yml", SHOW + "environment: requirements.txt\n")
    result = cli("run", "job.yml")
    assert result.code == 2
    assert "requirements are not read from an address: https://example.invalid/requirements.txt" in result.err
    assert "download it" in result.err


def test_a_project_with_a_lock_file(cli: Cli, links: Links) -> None:
    """`uv lock` is uv's own; from it the environment is what it says, and the project itself stays out."""
    links.wheel("demo", "1.0")
    links.wheel("demo", "1.1")
    uv = os.path.join(os.path.dirname(sys.executable), "uv")
    project = """\
[project]
name = "mine"
version = "0.1"
requires-python = ">=3.10"
dependencies = ["%s"]

[tool.uv]
find-links = ["%s"]
no-index = true
"""
    cli.write("pyproject.toml", project % ("demo<1.1", links.directory))
    subprocess.run([uv, "lock", "--quiet"], cwd=cli.project, env=cli.environ, check=True)
    cli.write("pyproject.toml", project % ("demo", links.directory))
    cli.write("job.yml", SHOW + "environment: uv.lock\n")
    assert cli.ok("run", "job.yml").out.startswith("0:0: 1.0 ")
    assert [row["name"] for row in cli.json("env", "show", "project")["pip"]] == ["demo"]
    os.unlink(os.path.join(cli.project, "uv.lock"))
    cli.write("job.yml", SHOW + "environment: pyproject.toml\n")
    assert cli.ok("run", "job.yml").out.startswith("0:0: 1.1 ")


BACKEND = """\
import base64, hashlib, zipfile

def build_wheel(directory, config_settings=None, metadata_directory=None):
    name = "local_one-1.0-py3-none-any.whl"
    with zipfile.ZipFile(directory + "/" + name, "w") as archive:
        archive.write("local_one.py")
        info = "local_one-1.0.dist-info/"
        archive.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: local-one\\nVersion: 1.0\\n")
        archive.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        with open("local_one.py", "rb") as file:
            digest = base64.urlsafe_b64encode(hashlib.sha256(file.read()).digest()).decode().rstrip("=")
        archive.writestr(info + "RECORD", "local_one.py,sha256=%s,\\n" % digest)
    return name

def build_editable(directory, config_settings=None, metadata_directory=None):
    raise SystemExit("editable")
"""


def write_source_tree(cli: Cli, directory: str, content: str, named: bool = True) -> None:
    """One that builds itself: nothing is downloaded."""
    system = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    project = '[project]\nname = "local-one"\nversion = "1.0"\nrequires-python = ">=3.8"\n' if named else ""
    cli.write(directory + "/pyproject.toml", project + system)
    cli.write(directory + "/backend.py", BACKEND)
    write_content(cli, directory, content)


def write_content(cli: Cli, directory: str, content: str) -> None:
    cli.write(directory + "/local_one.py", "CONTENT = %r\n" % content)


@pytest.mark.exhaustive(unless=["False"])
@pytest.mark.parametrize("named", [True, False])
def test_a_source_tree_that_has_changed_is_built_anew(cli: Cli, named: bool) -> None:
    """uv keeps what it built of a directory, and looks at its pyproject.toml alone."""
    show = "command: python -c 'import local_one; print(local_one.CONTENT)'\nenvironment: {pip: [--no-index, ./%s]}\n"
    tree = "named" if named else "unnamed"
    write_source_tree(cli, tree, "first", named)
    cli.write("job.yml", show % tree)
    for content in ("first", "the second"):
        write_content(cli, tree, content)
        assert cli.ok("run", "job.yml").lines == ["0:0: " + content]


@pytest.mark.exhaustive(unless=["True"])
@pytest.mark.parametrize("locked", [True, False])
def test_a_projects_source_trees_are_copied_and_count(cli: Cli, locked: bool) -> None:
    """Also where they are editable: what a run uses may not change."""
    cli.write(
        "pyproject.toml",
        '[project]\nname = "mine"\nversion = "0.1"\nrequires-python = ">=3.10"\ndependencies = ["local-one"]\n'
        '[tool.uv]\nno-index = true\n[tool.uv.sources]\nlocal-one = { path = "tree", editable = true }\n',
    )
    cli.write(
        "job.yml", "command: python -c 'import local_one; print(local_one.CONTENT)'\nenvironment: pyproject.toml\n"
    )
    write_source_tree(cli, "tree", "first")
    if locked:
        uv = os.path.join(os.path.dirname(sys.executable), "uv")
        subprocess.run([uv, "lock", "--quiet"], cwd=cli.project, env=cli.environ, check=True)
    for content in ("first", "the second"):
        write_content(cli, "tree", content)
        assert cli.ok("run", "job.yml").lines == ["0:0: " + content]
    assert "building" not in cli.ok("run", "job.yml").err


def locked_and_removed(cli: Cli) -> Callable[[], Result]:
    """What is to be built of requirements.txt was; what builds it again of its lock."""
    cli.ok("env", "build", "requirements.txt")
    lock = cli.ok("env", "lock", "requirements.txt").out.strip()
    cli.ok("env", "remove", os.path.basename(prefix_of(cli)))
    return lambda: cli("env", "build", lock)


def content_of(prefix: str) -> str:
    asked = [prefix + "/bin/python", "-c", "import local_one; print(local_one.CONTENT)"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


def test_a_lock_holds_the_commit_of_a_repository(cli: Cli) -> None:
    def commit(content: str) -> None:
        write_source_tree(cli, "tree/in", content)
        for words in (["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", content]):
            subprocess.run(["git", *words], cwd=tree, check=True)

    tree = os.path.join(cli.project, "tree")
    subprocess.run(["git", "init", "-q", tree], check=True)
    commit("first")
    cli.write("requirements.txt", "--no-index\nlocal-one @ git+file://%s#subdirectory=in\n" % tree)
    build = locked_and_removed(cli)
    commit("the second")
    again = build()
    assert again.code == 0, again
    assert content_of(again.out.strip()) == "first"


def test_a_lock_of_a_source_tree_fits_these_sources_alone(cli: Cli) -> None:
    write_source_tree(cli, "tree", "first")
    cli.write("requirements.txt", "--no-index\n./tree\n")
    build = locked_and_removed(cli)
    write_content(cli, "tree", "the second")
    refused = build()
    assert (
        refused.code == 1
        and "local-one differs from the lock: the sources have changed since, in file://" in refused.err
    )
    write_content(cli, "tree", "first")
    again = build()
    assert again.code == 0, again
    assert content_of(again.out.strip()) == "first"


def test_a_pyproject_that_is_of_tools_alone(cli: Cli) -> None:
    cli.write("pyproject.toml", "[tool.uv]\nno-index = true\n")
    cli.write("job.yml", SHOW + "environment: pyproject.toml\n")
    result = cli("run", "job.yml")
    assert result.code == 1 and "its dependencies would be in a [project] table" in result.err


def test_a_project_for_another_python(cli: Cli, links: Links) -> None:
    """uv warns, where nobody reads it."""
    links.wheel("demo", "1.0")
    cli.write(
        "pyproject.toml",
        '[project]\nname = "mine"\nversion = "0.1"\nrequires-python = ">=3.99"\ndependencies = ["demo"]\n'
        '[tool.uv]\nfind-links = ["%s"]\nno-index = true\n' % links.directory,
    )
    cli.write("job.yml", SHOW + "environment: pyproject.toml\n")
    result = cli("run", "job.yml")
    assert result.code == 1
    assert "the project requires Python >=3.99, and " in result.err
    assert 'set it: python: ">=3.99"' in result.err
    version = "%d.%d" % sys.version_info[:2]
    cli.write("job.yml", SHOW + "environment: {file: pyproject.toml, python: '%s'}\n" % version)
    assert cli.ok("run", "job.yml").out.startswith("0:0: 1.0 ")


def test_existing_environments_by_path_and_by_name(cli: Cli, tmp_path: Path) -> None:
    where = "command: echo $(which python) $VIRTUAL_ENV $CONDA_PREFIX $MARK\n"
    venv = tmp_path / ".virtualenvs" / "mine"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    conda = tmp_path / "miniforge3" / "envs" / "theirs"
    for part in ("conda-meta", "bin", "etc/conda/activate.d"):
        (conda / part).mkdir(parents=True)
    (conda / "bin" / "python").symlink_to(sys.executable)
    (conda / "etc" / "conda" / "activate.d" / "mark.sh").write_text("export MARK=activated-$CONDA_PREFIX\n")
    (conda / "conda-meta" / "state").write_text('{"env_vars": {"OF_CONDA": "1"}}')
    for name, text in (("mine", venv), (str(venv), venv), ("theirs", conda), (str(conda), conda)):
        cli.write("job.yml", where + "environment: %s\n" % name)
        mark = " activated-%s" % conda if text == conda else ""
        assert cli.ok("run", "job.yml").out == "0:0: %s/bin/python %s%s\n" % (text, text, mark)
    cli.write("job.yml", "command: echo $OF_CONDA\nenvironment: {python: theirs}\n")
    assert cli.ok("run", "job.yml").out == "0:0: 1\n"
    assert cli.json("env", "list") == []


def test_packages_on_top_of_an_existing_environment(cli: Cli, links: Links, tmp_path: Path) -> None:
    """What is there is neither changed nor installed again."""
    base = tmp_path / "base"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(base)], check=True)
    site = base / "lib" / ("python%d.%d" % sys.version_info[:2]) / "site-packages"
    (site / "needed-2.0.dist-info").mkdir()
    (site / "needed-2.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: needed\nVersion: 2.0\n")
    (site / "needed.py").write_text("__version__ = '2.0 of the base'\n")
    links.wheel("demo", "1.0", requires=("needed",))
    links.wheel("needed", "2.5")
    before = {*os.listdir(site), "__pycache__"}
    lines = ", ".join("'%s'" % line for line in (*links.lines, "demo"))
    show = "command: python -c 'import demo, needed; print(demo.__version__, needed.__version__)'\n"
    cli.write("job.yml", show + "environment:\n  python: %s\n  pip: [%s]\n" % (base, lines))
    assert cli.ok("run", "job.yml").out == "0:0: 1.0 2.0 of the base\n"
    assert {*os.listdir(site), "__pycache__"} == before
    lines = ", ".join("'%s'" % line for line in (*links.lines, "demo", "needed>2.4"))
    cli.write("job.yml", show + "environment:\n  python: %s\n  pip: [%s]\n" % (base, lines))
    refused = cli("run", "job.yml")
    assert refused.code == 1 and "needed" in refused.err
    assert "pip may not change what exists" in refused.err


def test_what_cannot_be_had_is_said_and_nothing_is_left(cli: Cli, links: Links) -> None:
    cli.write("requirements.txt", links.requirements("nowhere>1"))
    cli.write("job.yml", SHOW + "environment: requirements.txt\n")
    result = cli("run", "job.yml")
    assert result.code == 1
    assert "nowhere" in result.err and ".log" in result.err
    assert "conda" not in result.err
    assert cli.json("list") == [] and cli.json("env", "list") == []
    assert [name for name in os.listdir(cli.home + "/envs") if not name.endswith((".lock", ".log"))] == []


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ("nowhere.txt", "job.yml:2: environment: no such file or directory: "),
        ("misspelt", "job.yml:2: environment: there is no environment 'misspelt'"),
        ("{python: /nowhere/env}", "job.yml:2: environment: no such environment: /nowhere/env"),
        ("{python: .}", "has no bin/python"),
        ("{pip: [-e ./x]}", "an environment cannot contain sources that change"),
        ("job.yml", "job.yml: does not describe an environment"),
        ("notes.json", "has no content that is understood"),
        ("empty.lock.json", "empty.lock.json: is incomplete: conda: expected packages with "),
        ("rows.lock.json", "rows.lock.json: is incomplete: pip: expected packages with hashes, name, url, version"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_made(cli: Cli, environment: str, said: str) -> None:
    cli.write("notes.json", "{}")
    lock = {"format": "worldsize-environment-lock", "version": 1}
    cli.write("empty.lock.json", json.dumps(lock))
    cli.write("rows.lock.json", json.dumps({**lock, "conda": [], "pip": [{"name": "demo"}]}))
    cli.write("job.yml", "command: 'true'\nenvironment: %s\n" % environment)
    result = cli("run", "job.yml")
    assert result.code == 2
    assert said in result.err
    assert not os.path.exists(cli.home + "/envs")


def test_azures_names_without_a_mapping_take_the_current_python(cli: Cli) -> None:
    cli.write("job.yml", "command: python -c 'import sys; print(sys.prefix)'\nenvironment: azureml:curated:3\n")
    result = cli.ok("run", "job.yml")
    assert result.out == "0:0: %s\n" % sys.prefix
    assert "notice: job.yml:2: environment: azureml:curated:3 is Azure's" in result.err


def test_a_dry_run_builds_nothing_and_shows_what_would_be_used(cli: Cli, links: Links) -> None:
    links.wheel("demo", "1.0")
    cli.write("requirements.txt", links.requirements("demo"))
    cli.write("job.yml", SHOW + "environment: requirements.txt\n")
    shown = cli.ok("run", "job.yml", "--dry-run").out
    assert "PATH=%s/envs/pip-" % cli.home in shown
    assert not os.path.exists(cli.home + "/envs")
    built = cli.ok("env", "build", "job.yml").out.strip()
    assert "PATH=%s/bin:" % built in cli.ok("run", "job.yml", "--dry-run").out


def test_elements_of_an_array_share_one(cli: Cli, links: Links) -> None:
    links.wheel("demo", "1.0")
    cli.write("requirements.txt", links.requirements("demo"))
    cli.write("job.yml", SHOW + "environment: requirements.txt\ncount: 3\n")
    cli.ok("run", "job.yml")
    assert len(cli.json("env", "list")) == 1
    array = cli.latest()
    assert json.loads(cli.read(array + "_2", "environment.json"))["prefix"] == prefix_of(cli)


@pytest.mark.timing
def test_the_second_use_takes_a_tenth_of_a_second_at_most(cli: Cli, links: Links) -> None:
    """Against the same job without an environment, one right after the other, the quickest pair of several."""
    for number in range(20):
        links.wheel("demo%d" % number, "1.0")
    cli.write("requirements.txt", links.requirements(*("demo%d" % number for number in range(20))))
    cli.write("with.yml", "command: 'true'\nenvironment: requirements.txt\n")
    cli.write("without.yml", "command: 'true'\n")
    cli.ok("run", "with.yml")

    def seconds(job: str) -> float:
        began = time.perf_counter()
        cli.ok("run", job)
        return time.perf_counter() - began

    assert min(seconds("with.yml") - seconds("without.yml") for _ in range(7)) < 0.1
