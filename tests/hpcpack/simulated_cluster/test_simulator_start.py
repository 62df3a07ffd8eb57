"""How the simulator starts and ends: certificate, files, options, namespaces, and that nothing of it is left."""

from __future__ import annotations

import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from driver import wait_for
from hpcpack.simulator import SOURCE, Simulator, SimulatorError, until

from worldsize_hpcpack_simulator.server import KEEP_ALIVE

pytestmark = pytest.mark.exhaustive

SLEEP = "setsid sleep 4321.%d & sleep 4321.%d & wait"


def below(pid: int) -> set[int]:
    """Every living process that was started by `pid` or its descendants."""
    parents: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % name, "rb") as file:
                parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
        except OSError:
            continue
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def alive(pids: set[int]) -> list[int]:
    found = []
    for pid in pids:
        try:
            with open("/proc/%d/stat" % pid, "rb") as file:
                if file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X"):
                    found.append(pid)
        except OSError:
            continue
    return found


def folders() -> set[str]:
    return {name for name in os.listdir("/tmp") if name.startswith("worldsize-hpcpack-")}


def mounts() -> set[str]:
    """The mounts of this namespace, those of the Slurm clusters of other tests left out."""
    with open("/proc/self/mountinfo") as file:
        return {line for line in file if "/worldsize-slurm/" not in line}


def folder_of(simulator: Simulator) -> str:
    """Its temporary folder, which its nodes' homes are in."""
    with open("/proc/%d/cmdline" % simulator.node_pid(simulator.node_names[0]), "rb") as file:
        return re.search(r"worldsize-hpcpack-\w+", file.read().decode())[0]  # type: ignore[index]


def test_its_password_is_not_shown_to_everybody(tmp_path: Any) -> None:
    simulator = Simulator.start(str(tmp_path), 1, password="CanaryOfTheHead")
    with open("/proc/%d/cmdline" % simulator.process.pid, "rb") as file:
        words = file.read()
    simulator.stop()
    assert b"worldsize simulate hpcpack" in words and b"Canary" not in words


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("namespaces", [True, False])
def test_nothing_is_left(tmp_path: Any, number: int, namespaces: bool) -> None:
    before = mounts()
    simulator = Simulator.start(str(tmp_path), 2, **({} if namespaces else {"no_namespaces": True}))
    folder = folder_of(simulator)
    assert folder in folders()
    mark = time.monotonic_ns() % 10000
    job = simulator.submitted(SLEEP % (mark, mark))
    simulator.wait_task(job, 1, "Running")
    until(lambda: below(simulator.process.pid), lambda found: len(found) >= 6, 20)
    processes = below(simulator.process.pid)
    code = simulator.stop(number)
    assert code == (-9 if number == signal.SIGKILL else 0)
    until(lambda: alive(processes), lambda found: not found, 20)
    until(folders, lambda found: folder not in found, 20)
    assert mounts() - before == set()
    assert [line for line in simulator.said if "Traceback" in line or "Error" in line] == []
    left = {"share", "worldsize.toml", "hpcpack-ca.pem"} if number == signal.SIGKILL else set()
    assert set(os.listdir(tmp_path)) == {"requests.log", *left}


def test_it_ends_although_a_node_and_its_task_do_not_listen(tmp_path: Any) -> None:
    simulator = Simulator.start(str(tmp_path), 2, cancel_grace=60)
    job = simulator.submitted("trap '' INT TERM HUP; setsid sleep 4322 & sleep 4322")
    simulator.wait_task(job, 1, "Running")
    simulator.call("POST", "/jobs/%d/cancel" % job)
    processes = below(simulator.process.pid)
    began = time.monotonic()
    assert simulator.stop() == 0
    assert time.monotonic() - began < 30
    assert alive(processes) == []


def test_a_killed_node_takes_everything_with_it(hpcpack: Simulator) -> None:
    job = hpcpack.submitted({"CommandLine": SLEEP % (1, 1), "RequiredNodes": "cn03", "IsRerunnable": False})
    hpcpack.wait_task(job, 1, "Running")
    until(lambda: below(hpcpack.node_pid("cn03")), lambda found: len(found) >= 4, 20)
    processes = below(hpcpack.node_pid("cn03"))
    hpcpack.kill_node("cn03")
    until(lambda: alive(processes), lambda found: not found, 20)


def test_a_task_whose_shepherd_is_killed(hpcpack: Simulator) -> None:
    job = hpcpack.submitted({"CommandLine": SLEEP % (2, 2), "RequiredNodes": "cn03", "IsRerunnable": False})
    hpcpack.wait_task(job, 1, "Running")
    node = hpcpack.node_pid("cn03")
    until(lambda: below(node), lambda found: len(found) >= 4, 20)
    processes = below(node)
    with open("/proc/%d/task/%d/children" % (node, node)) as file:
        os.kill(int(file.read()), signal.SIGKILL)
    assert hpcpack.wait(job)["State"] == "Failed"
    assert "lost" in hpcpack.task(job)["ErrorMessage"]
    assert alive(processes) == []


# Namespaces


def test_a_node_has_a_view_of_its_own(hpcpack: Simulator) -> None:
    line = "hostname; cat /etc/hostname; getent hosts cn04; ls -d %s/* 2>&1; id -u; test -r /proc/self/stat && echo p"
    task = {"CommandLine": line % hpcpack.share, "RequiredNodes": "cn02"}
    open(os.path.join(hpcpack.share, "seen"), "w").close()
    job = hpcpack.submitted(task)
    hpcpack.wait(job)
    name, file, hosts, path, user, proc = hpcpack.task(job)["Output"].splitlines()
    assert (name, file, user, proc) == ("cn02", "cn02", str(os.getuid()), "p")
    assert hosts.split() == ["127.0.1.4", "cn04"]
    assert "No such file" in path, "the share is at /app and nowhere else"
    assert socket.gethostname() != "cn02"


def test_nodes_reach_each_other_by_name(hpcpack: Simulator) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    up = "/app/up-%d" % port
    serve = (
        "import socket; s = socket.create_server(('cn01', %d)); open('%s', 'w'); print(s.accept()[0].recv(9).decode())"
    )
    ask = "import socket; socket.create_connection(('cn01', %d), 5).sendall(b'hello')" % port
    job = hpcpack.submitted(
        {"CommandLine": 'python3 -c "%s"' % (serve % (port, up)), "RequiredNodes": "cn01"},
        {
            "CommandLine": 'until test -e %s; do sleep 0.05; done; python3 -c "%s"' % (up, ask),
            "RequiredNodes": "cn02",
        },
    )
    assert hpcpack.wait(job)["State"] == "Finished"
    assert hpcpack.task(job)["Output"] == "hello\n"


def test_the_share_is_written_by_all(hpcpack: Simulator) -> None:
    path = os.path.join(hpcpack.share, "from-here")
    with open(path, "w") as file:
        file.write("here ")
    job = hpcpack.submitted("cat from-here > /app/both; echo there >> /app/both", "true")
    hpcpack.wait(job)
    job = hpcpack.submitted({"CommandLine": "cat from-here > both; echo there >> both", "WorkDirectory": "/app"})
    assert hpcpack.wait(job)["State"] == "Finished"
    with open(os.path.join(hpcpack.share, "both")) as file:
        assert file.read() == "here there\n"


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    """Node cn02 lacks the share, the certificate has expired, each node has two GPUs, and it is of 2016."""
    options: dict[str, object] = {"unmounted": "cn02", "certificate_days": -1, "gpus": 2, "generation": "2016"}
    simulator = Simulator.start(str(tmp_path_factory.mktemp("odd")), 2, **options)
    yield simulator
    simulator.stop()


def unverified(simulator: Simulator) -> Any:
    import httpx

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    auth = (simulator.user.encode(), simulator.password.encode())
    return httpx.Client(base_url=simulator.url + "/hpc", verify=context, auth=auth)


def test_an_expired_certificate(odd: Simulator) -> None:
    import httpx

    with pytest.raises(httpx.ConnectError, match="expired"):
        odd.call("GET", "/cluster/version")


def test_a_node_without_the_share(odd: Simulator) -> None:
    with unverified(odd) as client:
        job = client.post("/jobs", json=[]).json()
        for node in odd.node_names:
            task = [{"Name": "CommandLine", "Value": "ls /app/here"}, {"Name": "RequiredNodes", "Value": node}]
            client.post("/jobs/%d/tasks" % job, json=task)
        open(os.path.join(odd.share, "here"), "w").close()
        client.post("/jobs/%d/submit" % job)

        def states() -> list[str]:
            rows = client.get("/jobs/%d/tasks?properties=State" % job).json()
            return [row["Properties"][0]["Value"] for row in rows]

        assert until(states, lambda found: set(found) <= {"Finished", "Failed"}, 20) == ["Finished", "Failed"]


def test_the_paths_of_2016(odd: Simulator) -> None:
    with unverified(odd) as client:
        assert client.get("/cluster/version").json().startswith("5.")
        assert client.get("/nodes/cn01").status_code == 200
        assert client.get("/cluster/nodes").status_code == 404


def test_the_paths_of_2019_and_nodes_without_namespaces(tmp_path: Any) -> None:
    simulator = Simulator.start(str(tmp_path), 2, no_namespaces=True, generation=2019)
    try:
        assert simulator.node_names == ["127.0.0.2", "127.0.0.3"]
        assert simulator.call("GET", "/nodes").status_code == 404
        with open(simulator.config) as file:
            share = re.search('node = "(.*)"', file.read())
        assert share is not None and any("namespaces" in line for line in simulator.said)
        job = simulator.submitted("touch %s/there; hostname; echo $CCP_NODES_CORES" % share[1])
        assert simulator.wait(job)["State"] == "Finished"
        assert simulator.task(job)["Output"] == "%s\n1 127.0.0.2 1\n" % socket.gethostname()
        assert os.listdir(simulator.share) == ["there"]
    finally:
        simulator.stop()


def test_without_namespaces_where_there_are_none(tmp_path: Any) -> None:
    """A user namespace inside another one that may not have any; it says so, and goes on."""
    from hpcpack import simulator as module

    script = "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set -all --inh-caps -all "
    script += sys.executable + ' -m worldsize simulate hpcpack --nodes 1 --share "$0"'
    argv = ["unshare", "--user", "--map-root-user", "sh", "-c", script, str(tmp_path / "share")]
    environ = {**os.environ, "PYTHONPATH": module.SOURCE, "WORLDSIZE_HPCPACK_PASSWORD": "x"}
    process = subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if line.rstrip().endswith("worldsize.toml"):
            process.terminate()
    assert process.wait(10) == 0, said
    assert "without namespaces (" in "".join(said) and "127.0.0.2" in said[0], said


# What it writes


def test_the_configuration_is_read_by_worldsize(tmp_path: Any) -> None:
    from worldsize.jobspec.config.load import load_config

    folder = tmp_path / 'a "folder" ü'
    folder.mkdir()
    simulator = Simulator.start(str(folder), 1, gpus=3, no_namespaces=True)
    try:
        where = os.path.dirname(simulator.config)
        config = load_config(where, {"HOME": str(tmp_path), "WORLDSIZE_SITE_CONFIG": str(tmp_path / "none")})
        compute = config.computes["hpcpack"]
        assert (compute.type, compute.gpus_per_node, compute.options["user"]) == ("hpcpack", 3, simulator.user)
        assert (compute.options["url"], compute.options["ca_file"]) == (simulator.url, simulator.ca_file)
        assert compute.options["share"]["head"] == simulator.share
        with open(simulator.config) as file:
            assert simulator.password not in file.read()
    finally:
        simulator.stop()


def test_the_certificate_is_for_every_name_of_this_machine(hpcpack: Simulator) -> None:
    context = ssl.create_default_context(cafile=hpcpack.ca_file)
    port = int(hpcpack.url.rpartition(":")[2])
    for name in ("localhost", "127.0.0.1", socket.gethostname()):
        with (
            socket.create_connection(("127.0.0.1", port), 5) as plain,
            context.wrap_socket(plain, server_hostname=name),
        ):
            pass
    with pytest.raises(ssl.SSLCertVerificationError), socket.create_connection(("127.0.0.1", port), 5) as plain:
        ssl.create_default_context().wrap_socket(plain, server_hostname="localhost")


def test_a_password_is_made_up_and_printed(tmp_path: Any) -> None:
    argv = [sys.executable, "-m", "worldsize", "simulate", "hpcpack", "--nodes=1", "--no-namespaces"]
    environ = {name: value for name, value in os.environ.items() if name != "WORLDSIZE_HPCPACK_PASSWORD"}
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, [source(), os.environ.get("PYTHONPATH", "")]))
    with subprocess.Popen(argv, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        export, config = process.stdout.readline(), process.stdout.readline()
        process.terminate()
    assert re.fullmatch(r"export WORLDSIZE_HPCPACK_PASSWORD=[\w-]{12,}\n", export)
    assert config == "%s\n" % (tmp_path / "hpcpack" / "worldsize.toml")
    assert os.listdir(tmp_path) == [], "the share was made for it, and is empty"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o600])
def test_a_new_password_is_printed_to_no_file_that_others_can_read(tmp_path: Any, mode: int) -> None:
    """Found by review: the recipe of the docs wrote it to one, and tasks execute as whoever started the simulator."""
    argv = [sys.executable, "-m", "worldsize", "simulate", "hpcpack", "--nodes=1", "--no-namespaces"]
    environ = {name: value for name, value in os.environ.items() if name != "WORLDSIZE_HPCPACK_PASSWORD"}
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, [source(), os.environ.get("PYTHONPATH", "")]))
    path = tmp_path / "out"
    path.touch()
    path.chmod(mode)
    with (
        path.open("w") as out,
        subprocess.Popen(argv, cwd=tmp_path, env=environ, stdout=out, stderr=subprocess.PIPE, text=True) as process,
    ):
        if mode == 0o600:
            wait_for(lambda: path.read_text().endswith("worldsize.toml\n"), 30)
            process.terminate()
        try:
            said = process.communicate(timeout=30)[1]
        finally:
            process.kill()
    text = path.read_text()
    if mode == 0o600:
        assert text.startswith("export WORLDSIZE_HPCPACK_PASSWORD=")
        return
    assert process.returncode == 2 and not text and "that other users can read" in said
    assert os.listdir(tmp_path) == ["out"]


def source() -> str:
    from hpcpack import simulator as module

    return module.SOURCE


# What is refused


def refused(tmp_path: Any, **options: object) -> str:
    with pytest.raises(SimulatorError) as caught:
        Simulator.start(str(tmp_path), **options)  # type: ignore[arg-type]
    assert "Traceback" not in str(caught.value)
    return str(caught.value)


def test_a_port_that_is_taken(tmp_path: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert "port %d is not available" % port in refused(tmp_path, port=port)
    assert not (tmp_path / "share").exists()


def test_a_share_that_is_no_directory(tmp_path: Any) -> None:
    (tmp_path / "share").write_text("mine")
    assert "is not a usable directory" in refused(tmp_path)
    assert (tmp_path / "share").read_text() == "mine"


@pytest.mark.parametrize("text", ["", "home = '/x'\n", "# Written by somebody else\n"])
def test_a_configuration_that_is_somebody_elses(tmp_path: Any, text: str) -> None:
    (tmp_path / "worldsize.toml").write_text(text)
    assert "not the simulator's" in refused(tmp_path)
    assert (tmp_path / "worldsize.toml").read_text() == text
    assert not (tmp_path / "share").exists()


def test_an_authority_that_is_somebody_elses(tmp_path: Any) -> None:
    (tmp_path / "hpcpack-ca.pem").write_text("mine")
    assert "not the simulator's" in refused(tmp_path)
    assert (tmp_path / "hpcpack-ca.pem").read_text() == "mine"


def test_a_configuration_that_a_killed_one_has_left(tmp_path: Any) -> None:
    first = Simulator.start(str(tmp_path), 1, no_namespaces=True)
    first.stop(signal.SIGKILL)
    assert os.path.exists(first.config)
    second = Simulator.start(str(tmp_path), 1, no_namespaces=True)
    assert second.ask("GET", "/jobs") == []
    assert second.stop() == 0


def test_clients_let_go_of_an_idle_connection_before_the_head_does() -> None:
    """Else a request may be lost in a connection that the head closes at that moment."""
    kept = httpx.Limits().keepalive_expiry
    assert kept is not None and kept < KEEP_ALIVE / 2


def test_two_on_one_share(hpcpack: Simulator) -> None:
    assert "another simulator" in refused(os.path.dirname(hpcpack.share))
    assert hpcpack.ask("GET", "/cluster/version")


@pytest.mark.parametrize(
    "options",
    [
        {"nodes": 0},
        {"nodes": "many"},
        {"port": 70000},
        {"port": -1},
        {"unmounted": "cn09"},
        {"unmounted": "127.0.0.2", "no_namespaces": True},
        {"delay": -1},
        {"delay": "nan"},
        {"generation": "2012"},
        {"user": "a:b"},
        {"user": ""},
        {"certificate_days": "soon"},
        {"certificate_days": "nan"},
        {"certificate_days": "1e99"},
        {"requests": "/none/log"},
    ],
    ids=str,
)
def test_bad_options(tmp_path: Any, options: dict[str, object]) -> None:
    assert refused(tmp_path, **options).startswith(("worldsize: ", "usage: "))
    assert os.listdir(tmp_path) in ([], ["requests.log"])


def test_what_it_wrote_is_trusted_no_longer_than_it_serves(tmp_path: Path) -> None:
    """Found by review: whoever wrote the same text there afterwards, and a certificate, got the password."""
    home = tmp_path / "config"
    decisions = home / "worldsize" / "trusted.json"
    words = [sys.executable, "-m", "worldsize", "simulate", "hpcpack", "--nodes=1", "--no-namespaces"]
    environ = {**os.environ, "PYTHONPATH": SOURCE, "XDG_CONFIG_HOME": str(home)}
    share = tmp_path / "place" / "share"
    share.parent.mkdir()
    with subprocess.Popen([*words, "--share", str(share)], env=environ, stdout=subprocess.PIPE, text=True) as process:
        try:
            config = str(share.parent / "worldsize.toml")
            assert process.stdout is not None
            while process.stdout.readline().strip() != config:
                assert process.poll() is None
            assert config in decisions.read_text()
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)
    assert config not in decisions.read_text()
