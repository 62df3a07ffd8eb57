"""Paths of the login node are only names on the others, whose /tmp and /scratch are their own: what somebody else has
made there under such a name is not executed. All found by review."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from driver import wait_for
from slurm.by_hand import mounted
from slurm.cluster import OVER
from slurm.login import PATIENCE, Login

ATTACKER = 61001
NODES = ("node1", "node2")
SPY = "#!/bin/sh\ntouch %s\nexec " + sys.executable + ' "$@"\n'


@pytest.fixture
def scratch(login: Login) -> Iterator[str]:
    """A directory that everybody may write to, and that each node has for itself."""
    path = os.path.join(login.cluster.shared, "scratch")
    os.makedirs(path)
    os.chmod(path, 0o1777)
    with ExitStack() as stack:
        for node in NODES:
            stack.enter_context(mounted(login, node, path, "-t", "tmpfs", "-o", "mode=1777", "none"))
        yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def mark(login: Login) -> str:
    """A file that shows that the attacker's program was executed."""
    return os.path.join(login.project, "executed")


def attack(login: Login, path: str, text: str, nodes: tuple[str, ...] = NODES) -> None:
    """A program of the attacker's, in directories of theirs below one that everybody may write to."""
    top, own = path, os.path.dirname(path)
    while not (os.path.ismount(own) or own in ("/tmp", os.path.join(login.cluster.shared, "scratch"))):
        top, own = own, os.path.dirname(own)
    write = 'mkdir -p "${1%/*}" && printf %s "$2" >"$1" && chmod 755 "$1" && chown -R "$4" "$3"'
    for node in nodes:
        words = ["sh", "-c", write, "sh", path, text, top, str(ATTACKER)]
        subprocess.check_call(login.cluster.on_node(node, words))


def told(login: Login, run: str) -> tuple[str, str | None, str]:
    status = login.ended(run)
    return status["state"], status["reason"], status["message"]


@pytest.fixture
def own_tmp() -> Iterator[str]:
    path = tempfile.mkdtemp(prefix="worldsize-names-", dir="/tmp")
    yield path
    shutil.rmtree(path, ignore_errors=True)


def test_the_python_of_the_login_node(login: Login, own_tmp: str, mark: str) -> None:
    python = os.path.join(own_tmp, "venv", "bin", "python")
    os.makedirs(os.path.dirname(python))
    os.symlink(sys.executable, python)
    with open(os.path.join(login.project, "worldsize.toml"), "a") as file:
        file.write('python = "%s"\n' % python)
    attack(login, python, SPY % mark)
    assert refused(login, login.submit("-w", "2x1", "--", "true"), mark)
    login.ok("exec", "-w", "2", "--", "true")
    assert not os.path.exists(mark)


def project_in(login: Login, scratch: str, world: str) -> str:
    """The login node's own directory with a job whose code it is."""
    project = os.path.join(scratch, "project")
    os.mkdir(project)
    login.job("sh train.sh", world, code=".")
    for name in ("worldsize.toml", "job.yml"):
        os.rename(os.path.join(login.project, name), os.path.join(project, name))
    Path(project, "train.sh").write_text("true\n")
    return project


@pytest.mark.exhaustive(unless=["another node's"])
@pytest.mark.parametrize("nodes", [NODES, ("node2",)], ids=["the first node's", "another node's"])
def test_the_code_of_a_script_by_hand(login: Login, scratch: str, mark: str, nodes: tuple[str, ...]) -> None:
    project = project_in(login, scratch, "2x1")
    if "node1" not in nodes:
        subprocess.check_call(login.cluster.on_node("node1", ["mkdir", project]))
        subprocess.check_call(login.cluster.on_node("node1", ["touch", project + "/train.sh"]))
    attack(login, os.path.join(project, "train.sh"), "touch %s\n" % mark, nodes)
    result = login("run", "--dry-run", "job.yml", cwd=project)
    assert result.code == 0, result
    path = login.write("job.sh", result.out)
    argv = ["sbatch", "--wait", "--nodelist=node[1-2]", "--output=%s.out" % path, path]
    ended = subprocess.run(argv, env=login.environ)
    assert ended.returncode and not os.path.exists(mark)
    text = Path(path + ".out").read_text()
    assert "not reliable here: %s" % project in text or "node2: task 1: Exited with exit code 74" in text


def test_the_code_of_a_script_by_hand_in_its_next_attempt(login: Login, scratch: str, mark: str) -> None:
    """It may be on another node."""
    project = project_in(login, scratch, "1x1")
    here = os.path.join(login.project, "here")
    good = "mkdir %s && echo 'touch %s; sleep 100' >%s/train.sh" % (project, here, project)
    subprocess.check_call(login.cluster.on_node("node1", ["sh", "-c", good]))
    attack(login, os.path.join(project, "train.sh"), "touch %s\n" % mark, ("node2",))
    path = login.write("job.sh", login("run", "--dry-run", "job.yml", cwd=project).out)
    argv = ["sbatch", "--parsable", "--requeue", "--nodelist=node1", "--output=%s.out" % path, path]
    job = login.cluster.command(*argv, cwd=login.project).strip()
    wait_for(lambda: os.path.exists(here), PATIENCE)
    login.cluster.command("scontrol", "requeue", job)
    wait_for(lambda: login.state(job) == "PENDING", PATIENCE)
    login.update(job, NodeList="node2", StartTime="now")
    wait_for(lambda: login.state(job) in OVER, PATIENCE)
    assert "not reliable here: %s" % project in Path(path + ".out").read_text() and not os.path.exists(mark)


def test_an_environment(login: Login, scratch: str, mark: str) -> None:
    prefix = os.path.join(scratch, "env")
    os.makedirs(os.path.join(prefix, "bin"))
    os.symlink(sys.executable, os.path.join(prefix, "bin", "python"))
    job = login.job("python -c 1", "2x1", environment=prefix)
    attack(login, os.path.join(prefix, "bin", "python"), SPY % mark)
    state, _, message = told(login, login.submit(job))
    assert state == "FAILED" and "another user could replace %s/bin on node" % prefix in message, "both nodes say so"
    for node in NODES:
        subprocess.check_call(login.cluster.on_node(node, ["rm", "-r", prefix]))
    assert "another user could replace" in told(login, login.submit(job))[2], "they could make it"
    for node in NODES:
        subprocess.check_call(login.cluster.on_node(node, ["mkdir", "-p", prefix + "/bin"]))
        subprocess.check_call(login.cluster.on_node(node, ["ln", "-s", sys.executable, prefix + "/bin/python"]))
    assert told(login, login.submit(job))[0] == "SUCCEEDED"
    subprocess.check_call(login.cluster.on_node("node2", ["chown", str(ATTACKER), prefix]))
    reason, message = told(login, login.submit(job))[1:]
    assert reason == "ENVIRONMENT" and "another user could replace %s/bin on node2" % prefix in message
    assert not os.path.exists(mark)


def environment_in(login: Login, scratch: str, mark: str, good: tuple[str, ...]) -> str:
    """An environment of the user's on the login node and these nodes, of the attacker's on the second one."""
    prefix = os.path.join(scratch, "env")
    os.makedirs(os.path.join(prefix, "bin"))
    os.symlink(sys.executable, os.path.join(prefix, "bin", "python"))
    for node in good:
        subprocess.check_call(login.cluster.on_node(node, ["mkdir", "-p", prefix + "/bin"]))
        subprocess.check_call(login.cluster.on_node(node, ["ln", "-s", sys.executable, prefix + "/bin/python"]))
    for name in ("sh", "stat", "readlink", "python"):
        attack(login, os.path.join(prefix, "bin", name), SPY % mark, ("node2",))
    return prefix


@pytest.mark.parametrize("by_hand", [False, True], ids=["submitted by us", "by hand"])
def test_what_lines_of_setup_put_in_force(login: Login, scratch: str, mark: str, by_hand: bool) -> None:
    """A node's shell would find the programs that look at the environment in the environment itself."""
    prefix = environment_in(login, scratch, mark, ("node1",))
    job = login.job("python -c 1", "2x1", environment=prefix, setup=["true"])
    if by_hand:
        path = login.write("job.sh", login.ok("run", "--dry-run", job).out)
        argv = ["sbatch", "--wait", "--nodelist=node[1-2]", "--output=%s.out" % path, path]
        assert subprocess.run(argv, env=login.environ, stdout=subprocess.DEVNULL).returncode
        assert "node2: task 1: Exited with exit code 74" in Path(path + ".out").read_text()
    else:
        reason, message = told(login, login.submit(job))[1:]
        assert reason == "ENVIRONMENT" and "another user could replace %s/bin on node2" % prefix in message
    assert not os.path.exists(mark)


@pytest.mark.exhaustive(unless=["setup-on the login node", "a script of one's own-on a node"])
@pytest.mark.parametrize("where", ["on the login node", "on a node"])
@pytest.mark.parametrize("own", [False, True], ids=["setup", "a script of one's own"])
def test_inside_an_allocation(login: Login, scratch: str, mark: str, where: str, own: bool) -> None:
    """The shell may be on no node of it, or know of one node alone: all of them are asked."""
    prefix = environment_in(login, scratch, mark, ("node1",))
    login.write("own.sbatch", "#!/bin/bash\n#SBATCH -N2 --ntasks-per-node=1\nsrun python -c 1\n")
    job = login.job("python -c 1", "2x1", environment=prefix, setup=["true"])
    words = [sys.executable, "-m", "worldsize", "run", "-q"]
    words += ["own.sbatch", "--set", "environment=" + prefix] if own else [job]
    salloc = ["salloc", "--quiet", "--nodelist=node[1-2]", "-N2"]
    if where == "on the login node":
        os.chmod(scratch, 0o755)
    else:
        salloc += ["srun", "--overlap", "-N1", "-n1"]
    ended = subprocess.run([*salloc, *words], env=login.environ, cwd=login.project, capture_output=True, text=True)
    assert ended.returncode and not os.path.exists(mark), ended
    assert "another user could replace %s/bin on node2" % prefix in login.status()["message"]


@pytest.mark.exhaustive
def test_what_the_first_node_of_a_script_of_ones_own_lacks(login: Login, scratch: str, mark: str) -> None:
    prefix = environment_in(login, scratch, mark, ())
    subprocess.check_call(login.cluster.on_node("node1", ["chmod", "755", scratch]))
    login.write("own.sbatch", "#!/bin/bash\n#SBATCH -N2 --ntasks-per-node=1\nsrun python -c 1\n")
    reason, message = told(login, login.submit("own.sbatch", "--set", "environment=" + prefix))[1:]
    assert reason == "ENVIRONMENT" and "another user could replace %s/bin on node2" % prefix in message
    assert not os.path.exists(mark)


@pytest.fixture
def base(login: Login, scratch: str, mark: str) -> str:
    """A directory of the user's on the login node, which is the attacker's on the nodes."""
    path = os.path.join(scratch, "base")
    os.mkdir(path)
    attack(login, os.path.join(path, "python"), SPY % mark)
    attack(login, os.path.join(path, "sitecustomize.py"), "open(%r, 'w')" % mark)
    os.symlink(sys.executable, os.path.join(path, "python"))
    return path


def refused(login: Login, run: str, mark: str) -> bool:
    state, _, message = told(login, run)
    return state == "FAILED" and "another user could replace" in message and not os.path.exists(mark)


@pytest.mark.exhaustive(unless=["shared"])
@pytest.mark.parametrize("distribute", ["shared", "local"])
def test_what_else_an_environment_puts_in_force(login: Login, base: str, mark: str, distribute: str) -> None:
    prefix = os.path.join(login.project, "env")
    os.makedirs(os.path.join(prefix, "bin"))
    os.symlink(sys.executable, os.path.join(prefix, "bin", "python"))
    environment = {"python": prefix, "distribute": distribute}
    for more in ({"path": [base]}, {"ld_library_path": [base]}, {"variables": {"PYTHONPATH": base}}):
        job = login.job("python -c 1", "2x1", environment={**environment, **more})
        assert refused(login, login.submit(job), mark), more


@pytest.mark.exhaustive
def test_an_interpreter_behind_a_link(login: Login, base: str, mark: str) -> None:
    prefix = os.path.join(login.project, "env")
    os.makedirs(os.path.join(prefix, "bin"))
    os.symlink(os.path.join(base, "python"), os.path.join(prefix, "bin", "python"))
    assert refused(login, login.submit(login.job("python -c 1", "2x1", environment=prefix)), mark)
    checked = login("env", "check", prefix, "-w", "2")
    assert checked.code and "another user could replace" in checked.out + checked.err, checked
    assert not os.path.exists(mark)


@pytest.mark.exhaustive
def test_a_local_copy_of_an_environment_whose_name_setup_uses(login: Login, base: str, mark: str) -> None:
    prefix = os.path.join(base, "env")
    os.makedirs(os.path.join(prefix, "bin"))
    os.symlink(sys.executable, os.path.join(prefix, "bin", "python"))
    attack(login, os.path.join(prefix, "bin", "srun"), SPY % mark)
    environment = {"python": prefix, "distribute": "local"}
    job = login.job("python -c 1", "2x1", environment=environment, setup=["true"])
    assert refused(login, login.submit(job), mark)


def test_what_a_job_names(login: Login, base: str, mark: str) -> None:
    linked = os.path.join(login.project, "bin")
    os.mkdir(linked)
    os.symlink(os.path.join(base, "python"), os.path.join(linked, "python"))
    library = os.path.join(login.project, "lib.so")
    for variables in (
        {"PYTHONPATH": base},
        {"PYTHONUSERBASE": base},
        {"PATH": linked + ":/usr/bin:/bin"},
        {"LD_PRELOAD": "%s %s/lib.so" % (library, base)},
        {"LD_LIBRARY_PATH": "%s;%s" % (login.project, base)},
    ):
        job = login.job("python3 -c 1", "2x1", environment_variables=variables)
        assert refused(login, login.submit(job), mark), variables
    words = ("-w", "2x1", "--", os.path.join(base, "python"), "-c", "1")
    assert refused(login, login.submit(*words), mark)
    with open(os.path.join(login.project, "worldsize.toml"), "a") as file:
        file.write('python = "%s/python"\n' % base)
    own = os.path.join(login.project, "env")
    os.makedirs(os.path.join(own, "bin"))
    os.symlink(sys.executable, os.path.join(own, "bin", "python"))
    job = login.job("python3 -c 1", "2x1", environment=own, environment_variables={"PATH": base + ":/usr/bin:/bin"})
    assert refused(login, login.submit(job), mark)


def test_no_secret_is_named(login: Login) -> None:
    """Names stand in the script, which Slurm keeps, and in plan.json."""
    secret = "zq8canary77x"
    login.environ["MY_TOKEN"] = secret
    keys = {
        "secrets": ["MY_TOKEN"],
        "environment": {"variables": {"PYTHONPATH": "/data/$MY_TOKEN/a:/data/b"}},
        "inputs": {"api_key": "aa:/bb9Canary77x", "at": "https://k3yOf20Letters7x9q2@host/x"},
        "environment_variables": {
            "LD_LIBRARY_PATH": "/data/%s/lib" % secret,
            "PATH": "/data/c:/usr/bin:/bin",
            "PYTHONHOME": "/data/${{inputs.api_key}}",
            "PYTHONPATH": "/data/a:${{inputs.at}}:/data/b",
        },
    }
    job = login.job("true", "1x1", **keys)
    said = login.ok("run", "--dry-run", job).out
    assert "/data/c" in said and secret not in said
    named = said.partition("NAMED=(")[2].partition(")")[0]
    assert "bb9Canary77x" not in named and "k3yOf20Letters7x9q2" not in named
    run = login.run("-q", job)
    assert secret not in login.read(run, "plan.json") + login.read(run, "submission.txt")


@pytest.mark.parametrize("value", ["/tmp/$HUB_LOGIN/lib", "/tmp/zq8canary77x/lib"], ids=["by its name", "as it is"])
def test_no_secret_is_named_where_an_environment_is_checked(login: Login, value: str) -> None:
    """Found by review: it was in srun's command line, which Slurm's accounting keeps, and in its message."""
    login.environ["HUB_LOGIN"] = secret = "zq8canary77x"
    environment = {"variables": {"PYTHONPATH": value, "LD_LIBRARY_PATH": "/tmp/theirs/lib"}}
    job = login.job("true", "1x1", secrets=["HUB_LOGIN"], environment=environment)
    checked = login("env", "check", job, "-w", "1")
    assert secret not in checked.out + checked.err, checked
    assert "another user could replace /tmp/theirs/lib" in checked.err, checked
    environment = {"path": ["/opt/$HUB_LOGIN/bin"]}
    job = login.job("true", "1x1", secrets=["HUB_LOGIN"], environment=environment)
    checked = login("env", "check", job, "-w", "1")
    assert checked.code == 2 and "contains a secret" in checked.err and secret not in checked.err, checked


@pytest.mark.exhaustive
def test_what_one_element_of_an_array_names(login: Login, base: str, mark: str) -> None:
    variables = {"PYTHONPATH": "${{inputs.lib}}"}
    keys = {"inputs": {"lib": "x"}, "matrix": {"lib": [login.project, base]}, "environment_variables": variables}
    array = login.ok("submit", login.job("python3 -c 1", "1x1", **keys)).out.strip()
    login("wait", array, "--timeout", "60", timeout=90)
    for element in (0, 1):
        status = login.status("%s_%d" % (array, element))
        assert status["state"] == "FAILED" and "another user could replace" in status["message"], status
    assert not os.path.exists(mark)


@pytest.mark.exhaustive
def test_what_elements_of_an_array_name_after_one_that_names_nothing(login: Login, base: str, mark: str) -> None:
    """Found by review: a first element without paths was taken for a compute that looks at none."""
    with open(os.path.join(login.project, "worldsize.toml"), "a") as file:
        file.write('python = "python3"\n')
    keys = {"inputs": {"lib": "x"}, "matrix": {"lib": ["relative", base]}}
    job = login.job("python3 -c 1", "1x1", **keys, environment_variables={"PYTHONPATH": "${{inputs.lib}}"})
    array = login.ok("submit", job).out.strip()
    login("wait", array, "--timeout", "60", timeout=90)
    assert login.status("%s_1" % array)["state"] == "FAILED" and not os.path.exists(mark)


@pytest.mark.exhaustive
def test_the_python_of_a_copied_virtual_environment(login: Login, base: str, mark: str) -> None:
    prefix = os.path.join(login.project, "env")
    os.makedirs(os.path.join(prefix, "bin"))
    shutil.copy(os.path.realpath(sys.executable), os.path.join(prefix, "bin", "python"))
    Path(prefix, "pyvenv.cfg").write_text("home = %s\n" % base)
    assert refused(login, login.submit(login.job("true", "2x1", environment=prefix)), mark)


@pytest.mark.exhaustive(unless=["ranks"])
@pytest.mark.parametrize("batch", [False, True], ids=["ranks", "a script of one's own"])
def test_the_run_directory_of_a_script_by_hand(login: Login, scratch: str, mark: str, batch: bool) -> None:
    login.environ["WORLDSIZE_HOME"] = home = os.path.join(scratch, "home")
    os.makedirs(home + "/runs", 0o700)
    login.write("own.sbatch", "#!/bin/bash\n#SBATCH -N2 --ntasks-per-node=1\nsrun true\n")
    words = ["own.sbatch"] if batch else ["-w", "2x1", "--", "true"]
    path = login.write("job.sh", login.ok("run", "--dry-run", *words).out)

    def output() -> str:
        argv = ["sbatch", "--wait", "--nodelist=node[1-2]", "--output=%s.out" % path, path]
        assert subprocess.run(argv, env=login.environ, stdout=subprocess.DEVNULL).returncode
        return Path(path + ".out").read_text()

    assert "no directory of runs that is yours" in output(), "it would have to be made where others could"
    subprocess.check_call(login.cluster.on_node("node1", ["mkdir", "-p", "-m", "700", home + "/runs"]))
    spy = "%s/runs/x/inrank/sitecustomize.py" % home
    attack(login, spy, "open(%r, 'w')" % mark, ("node2",))
    assert "node2: task 1: Exited with exit code 73" in output()
    assert not os.path.exists(mark)


@pytest.mark.exhaustive
def test_the_working_directory_of_a_command(login: Login, own_tmp: str, mark: str) -> None:
    project = os.path.join(own_tmp, "project")
    os.mkdir(project)
    shutil.move(os.path.join(login.project, "worldsize.toml"), os.path.join(project, "worldsize.toml"))
    attack(login, os.path.join(project, "json.py"), "open(%r, 'w')" % mark)
    words = ["exec", "-w", "2", "--", sys.executable, "-c", "import json, os; print(os.getcwd())"]
    result = login(*words, cwd=project)
    assert result.code == 0 and project not in result.out, result
    for node in NODES:  # a link of theirs to what is root's
        script = "rm -r %s && ln -s /tmp %s && chown -h %d %s" % (project, project, ATTACKER, project)
        subprocess.check_call(login.cluster.on_node(node, ["sh", "-c", script]))
        attack(login, "/tmp/check.sh", SPY % mark, (node,))
    result = login("exec", "-w", "2", "--", "./check.sh", cwd=project)
    assert result.code and not os.path.exists(mark), result
